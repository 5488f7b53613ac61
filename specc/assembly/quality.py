"""How far a quantised verifier is from its checkpoint, measured."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specc.assembly.calibration import calibration_ids, read_calibration
from specc.assembly.core_models import verifier_core
from specc.assembly.core_text import CoreText
from specc.assembly.sources import ModelSource
from specc.bundle.verifier_alone import verifier_alone
from specc.options import parse_precision
from specc.progress import Step
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.manifest import VERIFIER

TOKENS = 512  # of the calibration text
CHUNK = 128  # tokens fed at once; each chunk is a text of its own


def distance_from_checkpoint(
    bundle: Bundle, verifier: ModelSource, calibration: Path | None, step: Step
) -> Mapping[str, float]:
    """KL and argmax agreement of the bundle's verifier with the checkpoint in fp32, on the calibration text.

    The checkpoint is run by the oracle. step: told each token once its two laws are compared.
    """
    ids = calibration_ids(read_calibration(calibration), verifier)[:TOKENS]
    stored = _stored_laws(bundle, ids)
    precision = parse_precision("reference").resolve((), verifier.dtype)
    checkpoint = CoreText(verifier_core(verifier, precision, cache_rows=CHUNK).graph)
    distances = Distances()
    for chunk, law in stored:
        distances.add(log_softmax(checkpoint.logits(chunk)), law)
        step.advance(len(chunk))
    return distances.summary()


class Distances:
    """Collects, token by token, how far one law is from another."""

    def __init__(self) -> None:
        self._divergences: list[NDArray[np.float64]] = []
        self._agreed = 0

    def add(self, reference: NDArray[np.float32], other: NDArray[np.float32]) -> None:
        """Take the log-probabilities `[n, V]` of n tokens under both."""
        terms = np.subtract(reference, other)
        terms *= np.exp(reference)
        self._divergences.append(terms.sum(axis=-1, dtype=np.float64))
        self._agreed += int((reference.argmax(axis=-1) == other.argmax(axis=-1)).sum())

    def summary(self) -> dict[str, float]:
        """Mean KL(reference || other) in nats a token, its 99th percentile, how often both prefer the same token."""
        divergences = np.concatenate(self._divergences)
        return {
            "kl": float(max(divergences.mean(), 0.0)),
            "kl_p99": float(max(np.quantile(divergences, 0.99), 0.0)),
            "argmax_agreement": self._agreed / len(divergences),
            "tokens": float(len(divergences)),
        }


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities of each row."""
    shifted: NDArray[np.float32] = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def _stored_laws(bundle: Bundle, ids: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """The text in chunks, each with the log-probabilities after its tokens by the bundle's own program."""
    programs = load_programs(verifier_alone(bundle), threads=1)
    width = min(CHUNK, programs.max_width(VERIFIER), bundle.manifest.context)
    chunks = [ids[start : start + width] for start in range(0, len(ids), width)]
    return [(chunk, log_softmax(programs.verify(chunk, 0, len(chunk)))) for chunk in chunks]
