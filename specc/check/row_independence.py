"""Does a row's result depend on how many rows were fed with it?"""

from collections.abc import Iterator

import numpy as np

from specc.check.prompts import token_text
from specc.reports import CheckRow
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs

PREFIX = 32
MAX_DIFFERENCE = 1e-3  # of logits; beyond it near-ties flip often enough to be seen in text


def check_row_independence(bundle: Bundle) -> Iterator[CheckRow]:
    """The same tokens fed in every width a round uses; the logits must be the same bits, or nearly."""
    widest = max(bundle.manifest.gammas) + 1
    programs = load_programs(bundle)
    ids = token_text(bundle, PREFIX + 2 * widest)
    prefix, tail = ids[: -2 * widest], ids[-2 * widest :]
    programs.verify(prefix, 0, 0)
    expected = np.array(programs.verify(tail, len(prefix), len(tail)))
    largest, differing = 0.0, []
    for width in range(1, widest + 1):
        fed = [
            np.array(programs.verify(tail[i : i + width], len(prefix) + i, width))
            for i in range(0, len(tail) - width + 1, width)
        ]
        rows = np.concatenate(fed)
        difference = float(np.abs(rows - expected[: len(rows)]).max())
        if difference > 0:
            differing.append(width)
        largest = max(largest, difference)
    same = f"bit-identical for every width 1 to {widest}"
    other = f"largest logit difference {largest:.2g} at widths {differing}"
    yield CheckRow("row independence", largest <= MAX_DIFFERENCE, other if differing else same)
