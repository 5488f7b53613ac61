"""Checkpoints whose next-token law is a table: no layers, so a token's embedding alone decides what follows it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.support.checkpoints import decoder_config, write_hf_checkpoint

HIDDEN = 16
IMPOSSIBLE = -1e3  # the logit of a token that never follows: finite, as weights are, and of no mass in any precision


def random_table(vocabulary: int, seed: int) -> NDArray[np.float64]:
    """Laws of the token after each token, float64 `[V, V]`, rows of differing sharpness."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.dirichlet(np.full(vocabulary, 0.5 + last)) for last in range(vocabulary)])


def table_logits(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """The logits a checkpoint of `table` computes, float32 `[V, V]`; a mass of 0 becomes IMPOSSIBLE."""
    logits = np.full(table.shape, IMPOSSIBLE)
    np.log(table, out=logits, where=table > 0)
    return logits.astype(np.float32)


def markov_checkpoint(
    path: Path, table: NDArray[np.float64], tokenizer_json: str | None = None, eos_id: int | None = None
) -> Path:
    """Write a llama of no layers, whose token after token v has law `table[v]`, up to a factor; returns `path`.

    The embedding is one-hot, the final norm takes its length out again, and the head holds the logits.
    """
    vocabulary = len(table)
    config = decoder_config(num_hidden_layers=0, hidden_size=HIDDEN, vocab_size=vocabulary)
    length = np.sqrt(1 / HIDDEN + config["rms_norm_eps"])  # of a one-hot row, as the norm measures it
    head = np.zeros((vocabulary, HIDDEN), np.float32)
    head[:, :vocabulary] = table_logits(table).T
    weights = {
        "model.embed_tokens.weight": np.eye(vocabulary, HIDDEN, dtype=np.float32),
        "model.norm.weight": np.full(HIDDEN, length, np.float32),
        "lm_head.weight": head,
    }
    generation = None if eos_id is None else {"eos_token_id": eos_id}
    return write_hf_checkpoint(path, config, weights, tokenizer_json, generation_config=generation)
