import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from specc.core.functions.sampling import BLOCK, draw, one_hot, sampling_functions, warp, widen
from specc_runtime.history import TokenHistory
from specc_runtime.params import SamplingParams
from specc_runtime.warp import Warper
from tests.support.function_models import ENGINES, F32, I64, Run, graph_of, runner
from tests.support.reference_law import reference_law

# Masked logits near the largest float: a step of the search, or a division, beyond it is infinite, as meant.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

GREEDY = (0.0, 5, 0.5, 0.5)
OPTIONS = [  # temperature, top_k, top_p, min_p
    (1.0, 0, 1.0, 0.0),
    (0.8, 5, 1.0, 0.0),
    (1.3, 0, 0.7, 0.0),
    (0.7, 0, 1.0, 0.2),
    (0.9, 20, 0.8, 0.05),
    (100.0, 3, 0.2, 0.9),
    (0.01, 0, 0.9, 0.0),
]
ALMOST_ONE = np.float32(1 - 2**-24)


@pytest.fixture(scope="module", params=ENGINES)
def engines(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The functions of this module as graphs on one engine."""
    functions = sampling_functions()
    per_sequence = {name: (F32, ["B"]) for name in ("temperature", "top_p", "min_p")}
    law = {"law": F32}
    warped = {"logits": (F32, ["B", "R", "V"]), "top_k": (I64, ["B"])} | per_sequence
    warped = {name: warped[name] for name in ("logits", "temperature", "top_k", "top_p", "min_p")}
    graphs = {
        "warp": graph_of(warp(), warped, law, functions),
        "draw": graph_of(draw(), {"law": (F32, ["B", "V"]), "u": (F32, ["B"])}, {"id": I64}, functions),
        "one_hot": graph_of(one_hot(), {"ids": (I64, ["B", "R"]), "vocabulary": (I64, [1])}, law, functions),
        "widen": graph_of(
            widen(),
            {"law": (F32, ["B", "H"]), "head_ids": (I64, ["H"]), "vocabulary": (I64, [1])},
            {"wide": F32},
            functions,
        ),
    }
    return SimpleNamespace(**{name: runner(graph, request.param) for name, graph in graphs.items()})


def warped(run: Run, logits: np.ndarray, *options: tuple[float, int, float, float]) -> np.ndarray:
    temperature, top_k, top_p, min_p = (np.array(column) for column in zip(*options, strict=True))
    return run(
        {
            "logits": logits,
            "temperature": temperature.astype(np.float32),
            "top_k": top_k.astype(np.int64),
            "top_p": top_p.astype(np.float32),
            "min_p": min_p.astype(np.float32),
        }
    )["law"]


def params(temperature: float, top_k: int, top_p: float, min_p: float) -> SamplingParams:
    return SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)


def test_each_sequence_is_warped_by_its_own_options(engines: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((len(OPTIONS) + 1, 3, 60)) * 3).astype(np.float32)
    laws = warped(engines.warp, logits, *OPTIONS, GREEDY)
    for rows, options, found in zip(logits, OPTIONS, laws, strict=False):
        expected = np.stack([reference_law(row, params(*options), (), ()) for row in rows])
        np.testing.assert_array_equal(found > 0, expected > 0)
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-7)
    np.testing.assert_array_equal(laws[-1], np.eye(60)[logits[-1].argmax(axis=-1)])


@pytest.mark.parametrize("options", [*OPTIONS, GREEDY])
def test_the_host_warps_alike(engines: SimpleNamespace, options: tuple[float, int, float, float]) -> None:
    """Same support and, to float32's rounding, the same law as the runtime's own warping of a real-sized vocabulary."""
    logits = (np.random.default_rng(1).standard_normal((4, 5000)) * 4).astype(np.float32)
    asked = params(*options) if options[0] else SamplingParams()
    host = Warper(asked, vocab_rows=5000, token_count=5000, eos_ids=(), max_rows=4)
    expected = host.laws(logits, TokenHistory([0], vocab_rows=5000), [0, 0, 0])
    found = warped(engines.warp, logits[None], options)[0]
    np.testing.assert_array_equal(found > 0, expected > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_ties_at_a_threshold_are_all_kept(engines: SimpleNamespace) -> None:
    logits = np.log(np.array([[[4, 2, 2, 1, 1]]], np.float32))
    counts = [
        int((warped(engines.warp, logits, options) > 0).sum())
        for options in [(1.0, 2, 1.0, 0.0), (1.0, 0, 0.5, 0.0), (1.0, 0, 0.81, 0.0), (1.0, 0, 1.0, 0.4)]
    ]
    assert counts == [3, 3, 5, 3]


def test_temperature_0_takes_the_first_among_equals(engines: SimpleNamespace) -> None:
    logits = np.array([[[1, 7, 7, 3]], [[-5, -9, -5, -5]]], np.float32)
    laws = warped(engines.warp, logits, GREEDY, GREEDY)
    np.testing.assert_array_equal(laws[:, 0], [[0, 1, 0, 0], [1, 0, 0, 0]])


@pytest.mark.parametrize("options", [(1.0, 0, 0.0, 0.0), (1.0, 0, 1e-9, 0.0), (1.0, 0, 1.0, 1.0), (1.0, 1, 1.0, 0.0)])
def test_the_likeliest_token_is_always_kept(engines: SimpleNamespace, options: tuple[float, int, float, float]) -> None:
    logits = np.array([[[0.1, 0.3, 0.2]]], np.float32)
    np.testing.assert_array_equal(warped(engines.warp, logits, options)[0, 0], [0, 1, 0])


@pytest.mark.parametrize("options", [*OPTIONS, GREEDY])
def test_masked_logits_have_no_mass(engines: SimpleNamespace, options: tuple[float, int, float, float]) -> None:
    logits = np.array([[[1, -np.inf, 1.5, np.finfo(np.float32).min, -np.inf]]], np.float32)
    law = warped(engines.warp, logits, options)[0, 0]
    np.testing.assert_array_equal(law[[1, 3, 4]], 0)
    assert law.sum() == pytest.approx(1, abs=2e-7)


def laws_with_holes(size: int, count: int) -> np.ndarray:
    """Laws most of whose tokens have no mass, whole blocks, the first and the last of them among those."""
    rng = np.random.default_rng(size)
    laws = rng.random((count, size)) * (rng.random((count, size)) < 0.05)
    laws[:, : size // 3] = 0
    laws[::2, -size // 3 :] = 0
    laws[np.arange(count), rng.integers(size // 3, size - size // 3, count)] = 1e-6
    return laws.astype(np.float32)


@pytest.mark.parametrize("size", [3, BLOCK, BLOCK + 1, 3 * BLOCK, 10 * BLOCK - 7])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 30.0])
def test_a_token_of_no_mass_is_never_drawn(engines: SimpleNamespace, size: int, scale: float) -> None:
    laws = laws_with_holes(size, 40) * np.float32(scale)
    for u in (0.0, 2**-24, 0.3, 0.999, ALMOST_ONE):
        ids = engines.draw({"law": laws, "u": np.full(40, u, np.float32)})["id"]
        assert ids.shape == (40,)
        assert (laws[np.arange(40), ids] > 0).all()


def test_a_law_of_nothing_draws_token_0(engines: SimpleNamespace) -> None:
    assert engines.draw({"law": np.zeros((1, 300), np.float32), "u": np.array([0.5], np.float32)})["id"] == 0


@pytest.mark.parametrize("size", [3, 700, 49152])
def test_draws_invert_the_running_sum(engines: SimpleNamespace, size: int) -> None:
    """Drawn where the exact running sum says, but for uniforms within 1e-6 of a token's edge: the error of the sums.

    Half of the mass on one token, the rest spread so thinly that a plain float32 sum would lose much of it.
    """
    rng = np.random.default_rng(size)
    law = rng.random(size) ** 4 * 0.5
    law[size // 3] = law.sum()
    law = (law / law.sum()).astype(np.float32)
    u = np.floor(rng.random(200) * 2**24).astype(np.float32) * np.float32(2**-24)
    ids = engines.draw({"law": np.tile(law, (200, 1)), "u": u})["id"]
    held = np.concatenate([[0], law.astype(np.float64).cumsum()])
    held /= held[-1]
    assert (held[ids] - 1e-6 <= u).all()
    assert (u <= held[ids + 1] + 1e-6).all()


def test_one_hot_and_wide_laws(engines: SimpleNamespace) -> None:
    ids = np.array([[2, 0], [1, 3]])
    np.testing.assert_array_equal(engines.one_hot({"ids": ids, "vocabulary": np.array([4])})["law"], np.eye(4)[ids])
    fed = {
        "law": np.array([[0.25, 0.75], [1, 0]], np.float32),
        "head_ids": np.array([1, 4]),
        "vocabulary": np.array([6]),
    }
    expected = [[0, 0.25, 0, 0, 0.75, 0], [0, 1, 0, 0, 0, 0]]
    np.testing.assert_array_equal(engines.widen(fed)["wide"], expected)


def test_every_token_has_its_share_of_the_uniforms(engines: SimpleNamespace) -> None:
    """Counted over an even grid of uniforms: each token's share is its mass."""
    law = np.array([0.125, 0.0, 0.5, 0.25, 0.0, 0.125], np.float32)
    u = (np.arange(4096) / 4096).astype(np.float32)
    ids = engines.draw({"law": np.tile(law, (4096, 1)), "u": u})["id"]
    assert list(itertools.accumulate(np.bincount(ids, minlength=6) / 4096)) == list(itertools.accumulate(law))
