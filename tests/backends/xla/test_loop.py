"""Whole generations in one program: their law, for thousands of seeds side by side, and where they end."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.backends.xla.layout import Layout, state_stacks
from specc.backends.xla.loop import looped
from specc.backends.xla.machine import CPU
from specc.backends.xla.program import Owned, flat_program, step_program
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.fuse_round import DRAFTER, VERIFIER, fuse_round
from specc_runtime.params import SamplingParams
from tests.backends.xla.flat import core_of, weight_arrays, zero_state
from tests.models.support import oracle_runner, random_weights, tiny_config
from tests.support.reference_law import chi_square_p, joint_law

VOCABULARY, GAMMA, ROWS, BATCH = 5, 3, 16, 5000
PROMPT = (3, 1, 4, 1)
Law = dict[tuple[int, ...], float]
PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
SETTINGS = {
    "T=1": PLAIN,
    "top_k": PLAIN | {"temperature": 0.8, "top_k": 3},
    "top_p": PLAIN | {"temperature": 1.5, "top_p": 0.8, "min_p": 0.05},
}
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1}


def decoder(role: str, layers: int) -> CoreModel:
    """The first `layers` of one model."""
    config = tiny_config("llama", vocab_size=VOCABULARY, **SIZES | {"num_hidden_layers": layers})
    spec = describe(config, "tiny")
    return core_of(build_decoder(spec, random_weights(spec), "tiny", role, DecoderShape(ROWS)), role)


class Batched:
    """A loop over a model of two layers, drafted by its first, that generates BATCH samples in one call."""

    def __init__(self) -> None:
        self.cores = [decoder("verifier", 2), decoder("drafter", 1)]
        self._layout = Layout(self.cores)
        graph = fuse_round(self.cores[0].graph, self.cores[1].graph, GAMMA, limited=True)
        owned = [
            Owned(tuple(state_stacks(core)), prefix)
            for core, prefix in zip(self.cores, (VERIFIER, DRAFTER), strict=True)
        ]
        self.program = looped(flat_program(graph, owned, self._layout, CPU), GAMMA, ROWS, VOCABULARY)
        sample = [spec.name for spec in self.program.inputs].index("sample")
        axes = [0 if i == sample else None for i in range(len(self.program.arguments()))]
        self._run = jax.jit(jax.vmap(lambda *arguments: self.program.function(*arguments)[:2], in_axes=axes))
        self._state = [*self.filled(self.cores[0], PROMPT[:-1]), *self.filled(self.cores[1], PROMPT[:-2])]
        self._weights = weight_arrays(self.program, self.cores)

    def filled(self, core: CoreModel, ids: tuple[int, ...]) -> list[Any]:
        """A model's state after `ids`."""
        program = step_program(core, self._layout, CPU, len(ids), 0)
        fed = [np.array([ids], np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32)]
        given = {"tokens": fed[0], "position": fed[1], "rows": fed[2]}
        inputs = [given[spec.name] for spec in program.inputs]
        return list(program.jitted()(*inputs, *zero_state(program), *weight_arrays(program, self.cores))[1:])

    def __call__(
        self, setting: dict[str, Any], length: int, stops: tuple[int, ...] = (), first: int = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Texts `[BATCH, ROWS]` of up to `length` tokens after the prompt, and counts `[BATCH, ROWS]`."""
        text, stopping = np.zeros((1, ROWS), np.int32), np.zeros((1, VOCABULARY), np.bool_)
        text[0, : len(PROMPT)], stopping[0, list(stops)] = PROMPT, True
        given = {
            "text": text, "committed": [len(PROMPT)], "end": [len(PROMPT) + length], "stops": stopping,
            "seed": [[1, 2]], "sample": np.arange(first, first + BATCH)[:, None],
            **{name: [number] for name, number in setting.items()},
        }  # fmt: skip
        inputs = [np.asarray(given[spec.name], spec.dtype) for spec in self.program.inputs]
        texts, counts = self._run(*inputs, *self._state, *self._weights)
        return np.asarray(texts)[:, 0], np.asarray(counts)[:, 0]


def laws_of(batched: Batched, settings: Collection[str] = SETTINGS) -> dict[str, Law]:
    """Of every text of three tokens, by setting."""

    def logits_of(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        return oracle_runner(batched.cores[0].graph).feed(ids)[-1]

    return {name: joint_law(logits_of, SamplingParams(**SETTINGS[name]), PROMPT, VOCABULARY, 3) for name in settings}


def law_p(batched: Batched, law: Law, setting: str, more: int, batches: int) -> float:
    """p of the texts that come of `batches` times BATCH seeds, `more` tokens asked for behind those looked at."""
    texts: Counter[tuple[int, ...]] = Counter()
    for batch in range(batches):
        found, counts = batched(SETTINGS[setting], 3 + more, first=batch * BATCH)
        texts.update(map(tuple, found[:, len(PROMPT) : len(PROMPT) + 3].tolist()))
        assert set(np.unique(counts[:, 0])) == set(range(1, 4 if not more else GAMMA + 2)), "some outcome never came"
    return chi_square_p(texts, law)


@pytest.fixture(scope="module")
def batched() -> Batched:
    return Batched()


@pytest.fixture(scope="module")
def laws(batched: Batched) -> dict[str, Law]:
    return laws_of(batched)


@pytest.mark.parametrize("more", [0, 4])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_law(batched: Batched, laws: dict[str, Law], setting: str, more: int) -> None:
    """Where no more tokens are asked for, all rounds are shortened by the end."""
    assert law_p(batched, laws[setting], setting, more, batches=1) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 4])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_law_of_sixty_thousand_texts(batched: Batched, laws: dict[str, Law], setting: str, more: int) -> None:
    assert law_p(batched, laws[setting], setting, more, batches=60_000 // BATCH) > 1e-3


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_no_text_passes_the_end(batched: Batched, length: int) -> None:
    texts, counts = batched(PLAIN, length)
    assert (counts.sum(axis=1) == length).all()
    assert not texts[:, len(PROMPT) + length :].any()


def test_nothing_follows_the_round_of_a_stop(batched: Batched) -> None:
    endless, rounds = batched(PLAIN, 8)
    stopped, counts = batched(PLAIN, 8, stops=(2, 4))
    ends = len(PROMPT) + np.cumsum(counts, axis=1)
    for row in range(200):
        done = (counts[row] > 0).sum()
        np.testing.assert_array_equal(counts[row, :done], rounds[row, :done])
        end, before = ends[row, done - 1], ends[row, done - 2] if done > 1 else len(PROMPT)
        np.testing.assert_array_equal(stopped[row, :end], endless[row, :end])
        assert not set(stopped[row, len(PROMPT) : before]) & {2, 4}
        assert end == len(PROMPT) + 8 or set(stopped[row, before:end]) & {2, 4}
    assert len(set(counts.sum(axis=1))) > 4


def test_temperature_0_gives_one_text(batched: Batched) -> None:
    texts, _ = batched(PLAIN | {"temperature": 0.0}, 8)
    assert (texts == texts[0]).all()
    expected = list(PROMPT)
    for _ in range(8):
        expected.append(int(oracle_runner(batched.cores[0].graph).feed(np.array(expected))[-1].argmax()))
    assert texts[0, : len(expected)].tolist() == expected
