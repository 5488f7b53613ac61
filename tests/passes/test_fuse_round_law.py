"""Texts sampled through fused rounds have the verifier's law: zero-layer models whose next token depends on one table.

The whole batch advances side by side, each sequence at a pace of its own.
"""

from collections import Counter
from functools import cache

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.fuse_round import fuse_round
from specc.passes.trim_head import trim_head
from specc_runtime.params import SamplingParams
from tests.models.support import tiny_config, weights_from
from tests.support.function_models import Run, ort_run
from tests.support.reference_law import chi_square_p, joint_law

VOCAB, LENGTH, BATCH = 5, 4, 3000
PROMPT = (1, 3)
HEAD_IDS = np.array([0, 2, 3])
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
SETTINGS = {
    "plain": PLAIN,
    "top_k": PLAIN | {"temperature": 0.8, "top_k": 3},
    "top_p": PLAIN | {"temperature": 0.8, "top_p": 0.75},
    "min_p": PLAIN | {"temperature": 1.3, "min_p": 0.3},
    "all": {"temperature": 0.8, "top_k": 4, "top_p": 0.9, "min_p": 0.1},
}


def table(seed: int) -> NDArray[np.float32]:
    """Logits of the next token after each token, `[V, V]`."""
    return np.log(np.random.default_rng(seed).dirichlet([1.0] * VOCAB, VOCAB)).astype(np.float32)


def markov_decoder(role: str, logits: NDArray[np.float32], batch: int) -> ir.Model:
    """No layer: the embedding is one-hot, the norm makes it a token's row number, the head holds the logits."""
    hidden = 8
    sizes = {"num_hidden_layers": 0, "hidden_size": hidden, "num_attention_heads": 1, "num_key_value_heads": 1}
    spec = describe(tiny_config("llama", vocab_size=VOCAB, **sizes), "markov")
    one_hot = np.eye(VOCAB, hidden, dtype=np.float32)
    length = np.sqrt(1 / hidden + spec.epsilon)  # of a one-hot row, as the norm measures it
    arrays = {
        spec.names.embedding: one_hot,
        spec.names.final_norm: np.full(hidden, length, np.float32),
        spec.names.head: np.pad(logits.T, ((0, 0), (0, hidden - VOCAB))),
    }
    return build_decoder(spec, weights_from(arrays), "markov", role, DecoderShape(8, batch=batch))


@cache
def rounds(gamma: int, acceptance: str, trimmed: bool = False) -> Run:
    verifier, drafter = markov_decoder("verifier", table(0), BATCH), markov_decoder("drafter", table(1), BATCH)
    head_ids = HEAD_IDS if trimmed else None
    drafter = trim_head(drafter, HEAD_IDS) if trimmed else drafter
    graph = fuse_round(verifier, drafter, gamma, acceptance=acceptance, head_ids=head_ids)
    return ort_run(legalize(graph, "ort", OPS))


def sampled_texts(
    run: Run, gamma: int, setting: dict[str, float], rng: np.random.Generator
) -> Counter[tuple[int, ...]]:
    """The first LENGTH tokens of BATCH sequences after the prompt."""
    text = np.zeros((BATCH, len(PROMPT) + LENGTH + gamma), np.int64)
    text[:, : len(PROMPT)] = PROMPT
    written = np.full(BATCH, len(PROMPT))
    rows = np.arange(BATCH)
    options = {name: np.full(BATCH, x, np.int64 if name == "top_k" else np.float32) for name, x in setting.items()}
    while (active := written < len(PROMPT) + LENGTH).any():
        last_two = np.stack([text[rows, written - 2], text[rows, written - 1]], axis=1)
        uniforms = (rng.integers(0, 2**24, (BATCH, 2 * gamma + 1)) * 2.0**-24).astype(np.float32)
        made = run({"tokens": last_two, "position": written - 2, "uniforms": uniforms} | options)
        for place in range(gamma + 1):
            emits = active & (place < made["count"])
            text[rows[emits], written[emits] + place] = made["ids"][emits, place]
        written = np.where(active, written + made["count"], written)
    return Counter(map(tuple, text[:, len(PROMPT) : len(PROMPT) + LENGTH].tolist()))


def check_law(name: str, gamma: int, acceptance: str, batches: int, *, trimmed: bool = False) -> None:
    rng, counts = np.random.default_rng(gamma), Counter[tuple[int, ...]]()
    for _ in range(batches):
        counts += sampled_texts(rounds(gamma, acceptance, trimmed), gamma, SETTINGS[name], rng)
    setting = SETTINGS[name]
    params = SamplingParams(**setting)  # type: ignore[arg-type]
    law = joint_law(lambda ids: table(0)[ids[-1]], params, PROMPT, VOCAB, LENGTH)
    assert sum(counts.values()) == batches * BATCH
    assert chi_square_p(counts, law) > 1e-3


CASES = [
    *((name, 3, "block") for name in SETTINGS),
    ("plain", 1, "block"),
    ("plain", 6, "block"),
    ("top_p", 3, "tokenwise"),
]


@pytest.mark.parametrize(("name", "gamma", "acceptance"), CASES)
def test_the_law_of_sampled_texts(name: str, gamma: int, acceptance: str) -> None:
    check_law(name, gamma, acceptance, batches=2)


def test_the_law_with_a_trimmed_drafter_head() -> None:
    check_law("plain", 3, "block", batches=2, trimmed=True)


def test_another_table_is_told_apart() -> None:
    """The same test refuses texts of the drafter's law: its power is real."""
    counts = sampled_texts(rounds(3, "block"), 3, SETTINGS["plain"], np.random.default_rng(0))
    law = joint_law(lambda ids: table(1)[ids[-1]], SamplingParams(**PLAIN), PROMPT, VOCAB, LENGTH)
    assert chi_square_p(counts, law) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "acceptance"), [(1, "block"), (3, "block"), (6, "block"), (3, "tokenwise")])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_law_of_sixty_thousand_texts(name: str, gamma: int, acceptance: str) -> None:
    check_law(name, gamma, acceptance, batches=60_000 // BATCH)
