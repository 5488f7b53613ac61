"""Do the programs compute what their core graphs say?"""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.assembly.core_text import CoreText
from specc.assembly.quality import Distances, log_softmax
from specc.bundle.layout import CORE_GRAPH
from specc.check.prompts import token_text
from specc.check.subject import Subject
from specc.progress import Progress
from specc.reports import CheckRow
from specc_runtime.bundle import Bundle
from specc_runtime.errors import BundleError
from specc_runtime.manifest import VERIFIER

TOKENS = 24
# Nats a token: 8-bit programs also quantise activations, the core graph does not.
MAX_KL = {"plain": 1e-6, "8-bit": 3e-2}
MIN_AGREEMENT = {"plain": 1.0, "8-bit": 0.85}


def check_core_agreement(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """Per model: KL of the program's law from its core graph's, both over the stored weights, and argmax agreement.

    What both read alike goes unseen here: a changed weight is for the hashes to find.
    """
    drafters = {key: info.model for key, info in subject.bundle.manifest.drafters.items() if info.model is not None}
    ids = token_text(subject.bundle, TOKENS)
    with progress.step("programs against core graphs", 1 + len(drafters)) as step:
        found = subject.programs.verify(ids, 0, len(ids)).copy()
        yield _row(subject.bundle, VERIFIER, ids, found)
        step.advance()
        for key, model in drafters.items():
            fed = ids[: model.context]
            found = np.stack([subject.programs.draft(key, fed[i : i + 1], i).copy() for i in range(len(fed))])
            yield _row(subject.bundle, key, fed, found)
            step.advance()


def _row(bundle: Bundle, role: str, ids: NDArray[np.int64], found: NDArray[np.float32]) -> CheckRow:
    quantised, expected = _core_logits(bundle, role, ids)
    kind = "8-bit" if quantised else "plain"
    distances = Distances()
    distances.add(log_softmax(expected), log_softmax(found))
    measured = distances.summary()
    passed = measured["kl"] <= MAX_KL[kind] and measured["argmax_agreement"] >= MIN_AGREEMENT[kind]
    detail = (
        f"{kind}: KL {measured['kl']:.2g} (at most {MAX_KL[kind]:g}), argmax agreement "
        f"{measured['argmax_agreement']:.3f} (at least {MIN_AGREEMENT[kind]:g}), largest logit difference "
        f"{np.abs(expected - found).max():.2g} over {len(ids)} tokens"
    )
    return CheckRow(f"{role} against its core graph", passed, detail)


def _core_logits(bundle: Bundle, role: str, ids: NDArray[np.int64]) -> tuple[bool, NDArray[np.float32]]:
    """Whether a core graph of the bundle has 8-bit weights, and its logits, weights mapped from the weights file."""
    name = CORE_GRAPH.format(role=role)
    if name not in bundle.manifest.files:
        raise BundleError(f"{bundle.root}: its manifest lists no {name}; re-compile the bundle")
    path = bundle.path(name)
    try:
        graph = ir.load(path)
        ir.external_data.set_base_dir(graph.graph, str(bundle.root))
        quantised = any(v.dtype == ir.DataType.UINT8 for v in graph.graph.initializers.values())
        return quantised, CoreText(graph).logits(ids)
    except Exception as error:  # a damaged graph fails in as many ways as there are bytes
        reason = str(error).strip().split("\n")[0]
        raise BundleError(f"{path}: can't be evaluated ({reason}); re-copy or re-compile the bundle") from error
