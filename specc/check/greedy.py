"""Is speculative greedy decoding the same text as plain greedy decoding?"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from specc.check.prompts import prompt_ids
from specc.check.subject import Subject, Way, listed
from specc.progress import Progress
from specc.reports import CheckRow
from specc_runtime import SamplingParams
from specc_runtime.manifest import VERIFIER

NEW_TOKENS = 64
MAX_MARGIN = 1e-3  # a difference at a nearer tie is the engine's rounding, not the algorithm


def check_greedy(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """A row per prompt: every way to speculate gives plain decoding's tokens, or where it first differs."""
    prompts = prompt_ids(subject.bundle)
    ways = subject.ways(SamplingParams())
    with progress.step("greedy", len(prompts) * (len(ways) + 1)) as step:
        for kind, prompt in prompts.items():
            count = min(NEW_TOKENS, subject.bundle.manifest.context - len(prompt))
            params = SamplingParams(max_new_tokens=count, ignore_eos=True)
            plain = subject.engine().generate(prompt.tolist(), params, plain=True).finish().ids
            step.advance()
            differences = []
            for way in ways:
                tokens = subject.generate(way, prompt, params)
                if tokens != plain:
                    differences.append(_difference(subject, way, prompt, tokens, plain))
                step.advance()
            passed = all(forgiven for _, forgiven in differences)
            texts = "; ".join(text for text, _ in differences)
            same = f"{len(plain)} tokens identical to plain decoding for {listed(ways)}"
            yield CheckRow(f"greedy, {kind}", passed, texts or same)


def _difference(
    subject: Subject, way: Way, prompt: NDArray[np.int64], tokens: Sequence[int], plain: Sequence[int]
) -> tuple[str, bool]:
    """Where a text leaves plain decoding's, and whether the two likeliest tokens were too close to tell apart there."""
    first = next((i for i, (a, b) in enumerate(zip(tokens, plain, strict=False)) if a != b), None)
    if first is None:
        return f"{way} gives {len(tokens)} tokens, plain decoding {len(plain)}", False
    margin = _margin(subject, np.append(prompt, plain[:first]))
    return f"{way} differs at token {first}, top-2 margin {margin:.2g} (at most {MAX_MARGIN:g})", margin <= MAX_MARGIN


def _margin(subject: Subject, ids: NDArray[np.int64]) -> float:
    """Difference of the two largest logits after `ids`."""
    programs = subject.programs
    width = programs.max_width(VERIFIER)
    for start in range(0, len(ids), width):
        logits = programs.verify(ids[start : start + width], start, 1)
    second, first = np.partition(logits[0], -2)[-2:]
    return float(first - second)
