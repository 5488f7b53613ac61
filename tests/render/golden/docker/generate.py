"""Generates text with tiny: one JSON request a line on stdin, answers as JSON lines on stdout.

A request has a "prompt" (text, or a list of ids), any option of SamplingParams, drafter, gamma or plain, and
an "id" of any kind, which comes back in every line of its answer:

    {"id": 1, "prompt": "Once upon a time", "max_new_tokens": 64, "temperature": 0.8}

Lines with "ids" and "text" follow as rounds finish, then one with "finish_reason" and "stats", or one with "error".
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specc_runtime import Engine, Generation, SamplingParams, SpeccError

BUNDLE = Path(__file__).parent / "bundle"


def main() -> int:
    """Answer until stdin ends; 1 if the bundle can't be loaded."""
    try:
        engine = Engine.load(BUNDLE, threads=None, fused=False)
    except SpeccError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for line in sys.stdin:
        if line.strip():
            for answer in answers(engine, line):
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
    return 0


def answers(engine: Engine, line: str) -> Iterator[dict[str, Any]]:
    """The answer to one request, piece by piece."""
    tag: dict[str, Any] = {}
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise TypeError(f"a request is a JSON object, not {line.strip()[:40]}")
        tag = {"id": request.pop("id", None)}
        prompt = request.pop("prompt")
        way = {name: request.pop(name) for name in ("drafter", "gamma", "plain") if name in request}
        text: list[str] = []
        generation = engine.generate(prompt, SamplingParams(**request), streamer=text.append, **way)
        for ids in rounds(generation):
            yield {**tag, "ids": ids, "text": "".join(text)}
            text.clear()
        yield {**tag, "text": "".join(text), **summary(generation)}
    except KeyError as error:
        yield {**tag, "error": f"the request lacks {error}"}
    except (SpeccError, TypeError, ValueError) as error:
        yield {**tag, "error": str(error)}


def rounds(generation: Generation) -> Iterator[list[int]]:
    """The ids of each round, when it has finished."""
    given = 0
    for _ in generation:
        ids = generation.ids[given:]
        if ids:  # the first id of a round brings all of them
            given += len(ids)
            yield ids


def summary(generation: Generation) -> dict[str, Any]:
    """How it went."""
    return {"finish_reason": generation.finish_reason, "seed": generation.seed, "stats": generation.stats.as_dict()}


if __name__ == "__main__":
    sys.exit(main())
