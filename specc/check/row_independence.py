"""Does a row's result depend on how many rows were fed with it?"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from specc.check.prompts import token_text
from specc.check.subject import Subject
from specc.progress import Progress
from specc.reports import CheckRow
from specc_runtime.manifest import VERIFIER

PREFIX = 32
MAX_DIFFERENCE = 1e-3  # of logits; beyond it near-ties flip often enough to be seen in text


def check_row_independence(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """The same tokens fed in every width a round uses; the logits must be the same bits, or nearly."""
    widest, verify = max(subject.bundle.manifest.gammas) + 1, subject.programs.verify
    ids = token_text(subject.bundle, PREFIX + 2 * widest)
    start = len(ids) - min(2 * widest, subject.programs.max_width(VERIFIER), len(ids) - 1)
    widest = min(widest, len(ids) - start)
    largest, differing = 0.0, []
    with progress.step("row independence", widest) as step:
        verify(ids[:start], 0, 0)
        expected = verify(ids[start:], start, len(ids) - start).copy()
        for width in range(1, widest + 1):
            rows = _fed_in(subject, ids, start, width)
            difference = float(np.abs(rows - expected[: len(rows)]).max())
            if difference > 0:
                differing.append(width)
            largest = max(largest, difference)
            step.advance()
    same = f"bit-identical for every width 1 to {widest}"
    other = f"largest logit difference {largest:.2g} (at most {MAX_DIFFERENCE:g}) at widths {differing}"
    yield CheckRow("row independence", largest <= MAX_DIFFERENCE, other if differing else same)


def _fed_in(subject: Subject, ids: NDArray[np.int64], start: int, width: int) -> NDArray[np.float32]:
    """Logits of the tokens from `start` on, `width` of them at a time; an incomplete last group is left out."""
    groups = range(start, len(ids) - width + 1, width)
    return np.concatenate([subject.programs.verify(ids[at : at + width], at, width).copy() for at in groups])
