"""Do the programs compute what their core graphs say?"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.assembly.core_text import CoreText
from specc.assembly.quality import Distances, log_softmax
from specc.bundle.layout import CORE_GRAPH
from specc.check.prompts import token_text
from specc.check.subject import Subject
from specc.core.state_names import PAST
from specc.passes.widen_caches import widen_caches
from specc.progress import Progress
from specc.reports import CheckRow
from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Programs
from specc_runtime.errors import BundleError
from specc_runtime.manifest import FEATURES, VERIFIER

TOKENS = 24
_CODES = (ir.DataType.INT8, ir.DataType.UINT8)  # dtypes of 8-bit weights
PREDICTED = 4  # of a feature drafter's rows, how many read its own predictions
# Nats a token: 8-bit programs also quantise activations, the core graph does not.
MAX_KL = {"plain": 1e-6, "8-bit": 3e-2}
MIN_AGREEMENT = {"plain": 1.0, "8-bit": 0.85}


def check_core_agreement(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """Per model: KL of the program's law from its core graph's, both over the stored weights, and argmax agreement.

    What both read alike goes unseen here: a changed weight is for the hashes to find.
    """
    drafters = {key: info for key, info in subject.bundle.manifest.drafters.items() if info.model is not None}
    ids = token_text(subject.bundle, TOKENS)
    with progress.step("programs against core graphs", 1 + len(drafters)) as step:
        found = subject.programs.verify(ids, 0, len(ids)).copy()
        yield _row(VERIFIER, *_core_logits(subject.bundle, VERIFIER, ids), found)
        yield from _recomputed(subject, ids)
        step.advance()
        for key, info in drafters.items():
            fed = ids[: info.model.context] if info.model else ids
            if info.features:
                known = len(fed) - min(PREDICTED, len(fed) - 2)
                expected = _feature_core_logits(subject.bundle, key, fed, known)
                yield _row(key, *expected, _feature_logits(subject.programs, key, fed, known))
            else:
                found = np.stack([subject.programs.draft(key, fed[i : i + 1], i).copy() for i in range(len(fed))])
                yield _row(key, *_core_logits(subject.bundle, key, fed), found)
            step.advance()


def _recomputed(subject: Subject, ids: NDArray[np.int64]) -> Iterator[CheckRow]:
    """The same of the program that recomputes narrow caches, if there is one."""
    if any(program.kind == "recompute" for program in subject.bundle.manifest.programs):
        feed = subject.programs.full_precision()
        if feed is None:
            raise BundleError(f"{subject.bundle.root}: its recompute program can't be used here; upgrade the engine")
        found = feed(ids, 0, len(ids)).copy()
        with _core(subject.bundle, VERIFIER, widened=True) as (quantised, core):
            yield _row(f"{VERIFIER} on fp32 caches", quantised, core.logits(ids), found)


def _row(role: str, quantised: bool, expected: NDArray[np.float32], found: NDArray[np.float32]) -> CheckRow:
    kind = "8-bit" if quantised else "plain"
    distances = Distances()
    distances.add(log_softmax(expected), log_softmax(found))
    measured = distances.summary()
    passed = measured["kl"] <= MAX_KL[kind] and measured["argmax_agreement"] >= MIN_AGREEMENT[kind]
    detail = (
        f"{kind}: KL {measured['kl']:.2g} (at most {MAX_KL[kind]:g}), argmax agreement "
        f"{measured['argmax_agreement']:.3f} (at least {MIN_AGREEMENT[kind]:g}), largest logit difference "
        f"{np.abs(expected - found).max():.2g} over {len(expected)} tokens"
    )
    return CheckRow(f"{role} against its core graph", passed, detail)


def _feature_logits(programs: Programs, key: str, ids: NDArray[np.int64], known: int) -> NDArray[np.float32]:
    """A feature drafter's logits of all rows: the verifier's features in the first `known`, its own behind them."""
    rows = []
    for row, token in enumerate(ids[1:]):
        if row < known:
            programs.verify(ids[row : row + 1], row, 0)
        rows.append(programs.draft(key, np.array([token]), row).copy())
    return np.stack(rows)


def _core_logits(bundle: Bundle, role: str, ids: NDArray[np.int64]) -> tuple[bool, NDArray[np.float32]]:
    """Whether a model has 8-bit weights, and its core graph's logits."""
    with _core(bundle, role) as (quantised, core):
        return quantised, core.logits(ids)


def _feature_core_logits(
    bundle: Bundle, key: str, ids: NDArray[np.int64], known: int
) -> tuple[bool, NDArray[np.float32]]:
    """The same of a feature drafter, fed as `_feature_logits` feeds it, and of the verifier it reads."""
    with _core(bundle, VERIFIER) as (quantised_verifier, verifier):
        _, left = verifier.feed(ids[:known], 0, verifier.empty_state())
    with _core(bundle, key) as (quantised, drafter):
        state = drafter.empty_state() | {f"{PAST}{FEATURES}": left[f"{PAST}{FEATURES}.{key}"]}
        logits, state = drafter.feed(ids[1 : known + 1], 0, state)
        rows = [logits]
        for row in range(known, len(ids) - 1):
            logits, state = drafter.feed(ids[row + 1 : row + 2], row, state)
            rows.append(logits)
    return quantised or quantised_verifier, np.concatenate(rows)


@contextmanager
def _core(bundle: Bundle, role: str, *, widened: bool = False) -> Iterator[tuple[bool, CoreText]]:
    """Whether a core graph of the bundle has 8-bit weights, and the graph with weights mapped from the weights file.

    widened: with fp32 caches, whatever the graph's own are.
    """
    name = CORE_GRAPH.format(role=role)
    if name not in bundle.manifest.files:
        raise BundleError(f"{bundle.root}: its manifest lists no {name}; re-compile the bundle")
    path = bundle.path(name)
    try:
        graph = widen_caches(ir.load(path)) if widened else ir.load(path)
        ir.external_data.set_base_dir(graph.graph, str(bundle.root))
        yield any(v.dtype in _CODES for v in graph.graph.initializers.values()), CoreText(graph)
    except Exception as error:  # a damaged graph fails in as many ways as there are bytes
        reason = str(error).strip().split("\n")[0]
        raise BundleError(f"{path}: can't be evaluated ({reason}); re-copy or re-compile the bundle") from error
