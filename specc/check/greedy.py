"""Is speculative greedy decoding the same text as plain greedy decoding?"""

from collections.abc import Iterator

import numpy as np

from specc.check.prompts import prompt_ids
from specc.reports import CheckRow
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs

NEW_TOKENS = 64
MAX_MARGIN = 1e-3  # a difference at a nearer tie is the engine's rounding, not the algorithm


def check_greedy(bundle: Bundle) -> Iterator[CheckRow]:
    """A row per prompt: every gamma gives plain decoding's tokens, or the first difference with its top-2 margin."""
    engine = Engine.load(bundle.root)
    for kind, prompt in prompt_ids(bundle).items():
        count = min(NEW_TOKENS, bundle.manifest.context - len(prompt))
        params = SamplingParams(max_new_tokens=count, ignore_eos=True)
        plain = list(engine.generate(prompt.tolist(), params, plain=True))
        details, passed = [], True
        for gamma in bundle.manifest.gammas:
            tokens = list(engine.generate(prompt.tolist(), params, gamma=gamma))
            if tokens == plain:
                continue
            first = next(i for i, (a, b) in enumerate(zip(tokens, plain, strict=False)) if a != b)
            margin = _margin(bundle, [*prompt.tolist(), *plain[:first]])
            passed = passed and margin <= MAX_MARGIN
            details.append(f"gamma {gamma} differs at token {first}, top-2 margin {margin:.2g}")
        same = f"{len(plain)} tokens identical to plain decoding for gamma {_listed(bundle.manifest.gammas)}"
        yield CheckRow(f"greedy, {kind}", passed, "; ".join(details) or same)


def _margin(bundle: Bundle, ids: list[int]) -> float:
    """Difference of the two largest logits after `ids`."""
    programs = load_programs(bundle)
    tokens, width = np.asarray(ids, np.int64), programs.max_width("verifier")
    logits = np.zeros(2, np.float32)
    for start in range(0, len(tokens), width):
        logits = np.array(programs.verify(tokens[start : start + width], start, 1))[0]
    first, second = np.partition(logits, -2)[[-1, -2]]
    return float(first - second)


def _listed(gammas: tuple[int, ...]) -> str:
    return ", ".join(map(str, gammas))
