"""Where sampled tokens stand in the laws they should have been drawn from."""

import numpy as np
from numpy.typing import NDArray

Laws = NDArray[np.float64]


def softmax(logits: NDArray[np.float32]) -> Laws:
    """The law of each row, in float64."""
    law: Laws = logits.astype(np.float64)
    law -= law.max(axis=-1, keepdims=True)
    np.exp(law, out=law)
    law /= law.sum(axis=-1, keepdims=True)
    return law


def places(laws: Laws, scores: Laws, tokens: NDArray[np.int64], spread: Laws) -> Laws:
    """The place in [0, 1) of each token in its law `[n, V]`, tokens of larger score `[n, V]` first.

    Mass of the tokens before it, and a share, `spread` in [0, 1), of its own and its equals' (randomised probability
    integral transform): uniform, whatever the scores, if and only if tokens are drawn from their laws. Scores, which
    may depend on the text before the token, choose what kind of deviation shows best.
    """
    own = np.take_along_axis(scores, tokens[:, None], axis=-1)
    before = np.where(scores > own, laws, 0).sum(axis=-1)
    equals = np.where(scores == own, laws, 0).sum(axis=-1)
    found: Laws = np.minimum(before + spread * equals, np.nextafter(1, 0))
    return found


def ratio(drafter: Laws, verifier: Laws) -> Laws:
    """Scores by which tokens that the drafter overrates come first; 0 where the verifier has no mass."""
    return np.divide(drafter, verifier, out=np.zeros_like(verifier), where=verifier > 0)
