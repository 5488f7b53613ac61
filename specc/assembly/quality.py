"""How far a quantised verifier is from its checkpoint, measured."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs

CHUNK = 128  # tokens fed at once; each chunk is a text of its own


def token_laws(bundle: Bundle, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log-probabilities of the verifier after each token of `ids`, chunk by chunk: f32 `[len(ids), V]`."""
    programs = load_programs(bundle, threads=1)
    width = min(CHUNK, programs.max_width("verifier"), bundle.manifest.context)
    rows = []
    for start in range(0, len(ids), width):
        chunk = ids[start : start + width]
        rows.append(log_softmax(programs.verify(chunk, 0, len(chunk))))
    return np.concatenate(rows)


def distance(reference: NDArray[np.float32], stored: NDArray[np.float32]) -> Mapping[str, float]:
    """Mean KL(reference || stored) in nats a token, its 99th percentile, and how often both prefer the same token."""
    kl = (np.exp(reference) * (reference - stored)).sum(axis=-1, dtype=np.float64)
    agreement = np.mean(reference.argmax(axis=-1) == stored.argmax(axis=-1))
    return {
        "kl": float(max(kl.mean(), 0.0)),
        "kl_p99": float(np.quantile(kl, 0.99)),
        "argmax_agreement": float(agreement),
        "tokens": float(len(kl)),
    }


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities of each row."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted
