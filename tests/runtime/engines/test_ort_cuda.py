"""ONNX Runtime on a GPU: what the engine does, on the CPU's provider, and that the provider asked for really runs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines import load_programs, ort_cuda
from specc_runtime.errors import EngineError
from tests.support.tiny_models import compiled, tiny_model

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
PRECISION = "reference,kv=fp16"  # both backends then round the same values


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One model for a GPU and for the CPU."""
    root = tmp_path_factory.mktemp("cuda")
    model = tiny_model(root / "m")
    compiled(model, root / "gpu", precision=PRECISION, target="a100", backend="ort", gammas=(2,))
    compiled(model, root / "cpu", precision=PRECISION, gammas=(2,))
    return root / "gpu", root / "cpu"


@pytest.fixture
def gpu(bundles: tuple[Path, Path]) -> Bundle:
    return open_bundle(bundles[0])


@pytest.mark.parametrize("gamma", [0, 2])
def test_the_text_is_that_of_the_cpus_bundle(bundles: tuple[Path, Path], gpu: Bundle, gamma: int) -> None:
    here, there = Engine(gpu, ort_cuda.CudaPrograms(gpu, CPU, "cpu")), Engine.load(bundles[1])
    for temperature in (0.0, 0.9):
        params = SamplingParams(max_new_tokens=30, ignore_eos=True, temperature=temperature, seed=3)
        found, expected = (engine.generate([5, 1, 33], params, gamma=gamma).finish().ids for engine in (here, there))
        assert found == expected


def test_reset_zeroes_the_caches(gpu: Bundle) -> None:
    programs = ort_cuda.CudaPrograms(gpu, CPU, "cpu")
    first = programs.verify(np.array([5]), 3, 1).copy()
    programs.verify(np.array([7, 8, 9]), 0, 0)
    assert np.abs(programs.verify(np.array([5]), 3, 1) - first).max() > 0
    programs.reset()
    np.testing.assert_array_equal(programs.verify(np.array([5]), 3, 1), first)
    assert programs.full_precision() is None


def test_without_the_provider_it_says_what_to_install(gpu: Bundle) -> None:
    with pytest.raises(EngineError, match=rf"for a100, and ONNX Runtime .* lacks the {CUDA}.*: pip install .*gpu"):
        load_programs(gpu)


class Session:
    """Asked for CUDA, ONNX Runtime gives this. runs: provider by op; the first is that of the session."""

    def __init__(self, first: str, runs: dict[str, str]) -> None:
        self._first, self._runs = first, runs

    def __call__(self, model: bytes, options: onnxruntime.SessionOptions, providers: list[str]) -> "Session":
        assert providers == [CUDA]
        assert options.get_session_config_entry("session.record_ep_graph_assignment_info") == "1"
        return self

    def get_providers(self) -> list[str]:
        return list(dict.fromkeys([self._first, CPU]))

    def get_provider_graph_assignment_info(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(ep_name=provider, get_nodes=lambda op=op: [SimpleNamespace(op_type=op)])
            for op, provider in self._runs.items()
        ]


@pytest.mark.parametrize(
    ("session", "words"),
    [
        (Session(CPU, {}), f"ONNX Runtime runs it on {CPU}, not on {CUDA}: pip install"),
        (
            Session(CUDA, {"Shape": CPU, "FusedMatMul": CUDA, "GroupQueryAttention": CPU}),
            f"runs its GroupQueryAttention on the CPU, not on {CUDA}, which has no kernel",
        ),
    ],
    ids=["a session", "an op"],
)
def test_a_silent_fallback_is_refused(
    gpu: Bundle, monkeypatch: pytest.MonkeyPatch, session: Session, words: str
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(ort_cuda, "InferenceSession", session)
    monkeypatch.setattr(ort_cuda, "DEVICE", "cpu")
    with pytest.raises(EngineError, match=words) as error:
        load_programs(gpu)
    assert "\n" not in str(error.value)


def test_arithmetic_on_shapes_may_stay_on_the_cpu(gpu: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(ort_cuda, "InferenceSession", Session(CUDA, {"Shape": CPU, "MatMulNBits": CUDA}))
    monkeypatch.setattr(ort_cuda, "DEVICE", "cpu")
    assert load_programs(gpu).rounds == ()
