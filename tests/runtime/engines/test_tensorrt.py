"""The tensorrt engine on fakes of both libraries, which compute with ONNX Runtime; and against the real names."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Programs
from specc_runtime.engines.tensorrt_requirements import requirements
from specc_runtime.errors import EngineError
from specc_runtime.manifest import VERIFIER
from tests.support.fake_tensorrt import CudaError, FakeContext, FakeCuda, FakeTensorrt, build_fake_engines
from tests.support.fused_rounds import GREEDY
from tests.support.refusals import refuses
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator
from tests.support.tiny_models import compiled, tiny_model

PROMPT = [5, 1, 33, 60, 2, 17, 9]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for a machine whose engines are built on the device, and built by the fake."""
    folder = tmp_path_factory.mktemp("tensorrt")
    precision = "balanced,kv=fp16,attention=fp16"
    compiled(tiny_model(folder / "m"), folder / "b", precision=precision, target="h100", gammas=(2,))
    build_fake_engines(folder / "b", open_bundle(folder / "b").manifest)
    return folder / "b"


@dataclass
class Fakes:
    cuda: FakeCuda
    trt: FakeTensorrt


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fakes]:
    """Puts fakes in the libraries' places. module: TensorRT's; version: its; the rest goes to the CUDA fake."""

    def put(module: str = "tensorrt", version: str = "11.1.0", **device: Any) -> Fakes:
        cuda = FakeCuda(**device)
        fakes = Fakes(cuda, FakeTensorrt(cuda, version))
        monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", cuda)
        monkeypatch.setitem(sys.modules, module, fakes.trt)
        return fakes

    return put


def generated(root: Path, fused: bool = False, **options: Any) -> list[int]:
    bundle = open_bundle(root)
    steps = tuple(p for p in bundle.manifest.programs if fused or p.kind != "round")
    bundle = Bundle(root, replace(bundle.manifest, programs=steps))
    engine = Engine(bundle, load_programs(bundle))
    params = SamplingParams(
        max_new_tokens=options.pop("max_new_tokens", 20),
        ignore_eos=True,
        seed=3,
        temperature=options.pop("temperature", 0.0),
    )
    return list(engine.generate(PROMPT, params, **options))


@pytest.mark.parametrize("fused", [False, True], ids=["chained", "fused"])
def test_greedy_speculation_is_plain_decoding(root: Path, install: Callable[..., Fakes], fused: bool) -> None:
    install()
    assert generated(root, fused, gamma=2) == generated(root, plain=True)


@pytest.fixture(scope="module")
def featured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose drafter reads the verifier's features, built by the fake."""
    folder = tmp_path_factory.mktemp("features")
    flags = {"norm_before_residual": True, "fc_norm": True}
    weights = speculator_weights(layer_config(), seed=1, **flags)
    config = speculator_config(layer_config(), feature_layers=(0, 1, 3), **flags)
    drafter = write_speculator(folder / "d", config, weights)
    precision = "balanced,kv=fp16,attention=fp16"
    compiled(tiny_model(folder / "m"), folder / "b", str(drafter), precision, target="h100", gammas=(3,))
    build_fake_engines(folder / "b", open_bundle(folder / "b").manifest)
    return folder / "b"


@pytest.mark.parametrize("fused", [False, True], ids=["chained", "fused"])
def test_a_drafter_that_reads_features_speculates(featured: Path, install: Callable[..., Fakes], fused: bool) -> None:
    install()
    manifest = open_bundle(featured).manifest
    assert {p.width for p in manifest.programs if p.kind == "draft"} == {1, 4}
    text = generated(featured, fused, gamma=3, max_new_tokens=100)
    assert len(PROMPT) + len(text) == manifest.context
    assert text == generated(featured, plain=True, max_new_tokens=100)


def test_features_make_the_same_text_fused_or_chained(featured: Path, install: Callable[..., Fakes]) -> None:
    """The drafts are the same, too: sampled texts of one seed follow them."""
    install()
    assert generated(featured, True, gamma=3, temperature=0.9) == generated(featured, gamma=3, temperature=0.9)


def test_a_seed_gives_the_same_text_fused_or_chained(root: Path, install: Callable[..., Fakes]) -> None:
    install()
    assert generated(root, True, gamma=2, temperature=0.9) == generated(root, False, gamma=2, temperature=0.9)


def test_logits_do_not_depend_on_the_widths_fed(root: Path, install: Callable[..., Fakes]) -> None:
    """Programs of every width read what those of other widths wrote: the caches are one memory."""
    install()
    programs = load_programs(open_bundle(root))
    ids = np.random.default_rng(0).integers(0, 300, 12)

    def logits(widths: list[int]) -> NDArray[np.float32]:
        programs.reset()
        rows, start = [], 0
        for width in widths:
            rows.append(np.array(programs.verify(ids[start : start + width], start, width)))
            start += width
        return np.concatenate(rows)

    expected = logits([1] * 12)
    for widths in ([3, 3, 3, 3], [2, 1, 3, 2, 1, 3], [12]):
        np.testing.assert_allclose(logits(widths), expected, rtol=0, atol=2e-2)


def test_each_cache_is_one_memory_bound_in_and_out(root: Path, install: Callable[..., Fakes]) -> None:
    fakes = install()
    bundle = open_bundle(root)
    load_programs(bundle)
    used: dict[tuple[str, str], set[int]] = {}
    for program, context in zip(_in_loading_order(bundle), fakes.trt.contexts, strict=True):
        for state in program.state:
            for name in (state.name, state.output):
                used.setdefault((state.owner, state.role), set()).add(context.addresses[name])
    assert all(len(addresses) == 1 for addresses in used.values())
    assert len({next(iter(addresses)) for addresses in used.values()}) == len(used) == 8


def _in_loading_order(bundle: Bundle) -> list[Any]:
    programs = bundle.manifest.programs
    steps = [p for owner in (None, "drafter") for p in programs if p.drafter == owner and p.kind != "round"]
    return [*steps, *(p for p in programs if p.kind == "round")]


def test_a_round_is_one_graph_launch_and_one_wait(root: Path, install: Callable[..., Fakes]) -> None:
    """From the third call on; the first makes kernels, the second captures."""
    fakes = install()
    programs, tokens = load_programs(open_bundle(root)), np.array(PROMPT)
    programs.verify(tokens, 0, 0)
    programs.catchup("drafter", tokens, 0)
    (program,) = programs.rounds
    counts = []
    for _ in range(4):
        fakes.cuda.calls.clear()
        emitted = programs.round(program, tokens[-2:], 5, np.full(5, 0.5, np.float32), GREEDY)
        counts.append((Counter(fakes.cuda.calls), emitted.tolist()))
    assert counts[0][0]["cudaMemcpyAsync"] == counts[1][0]["cudaMemcpyAsync"] == 9
    assert counts[1][0]["cudaStreamBeginCapture"] == 1
    assert counts[2][0] == counts[3][0] == Counter({"cudaGraphLaunch": 1, "cudaStreamSynchronize": 1})
    assert len({tuple(ids) for _, ids in counts}) == 1


def test_steps_of_a_round_write_in_place_where_a_target_file_asks(
    install: Callable[..., Fakes], tmp_path: Path
) -> None:
    """Each update has an input of its own, bound with the outputs between the steps to the cache's memory."""
    fakes = install()
    target = tmp_path / "h100.toml"
    shipped = (Path(__file__).parents[3] / "targets" / "h100.toml").read_text()
    target.write_text("in_place_caches = true\n" + shipped)
    precision = "balanced,kv=fp16,attention=fp16"
    compiled(tiny_model(tmp_path / "m"), tmp_path / "b", precision=precision, target=str(target), gammas=(3,))
    manifest = open_bundle(tmp_path / "b").manifest
    build_fake_engines(tmp_path / "b", manifest)
    (fused,) = (p for p in manifest.programs if p.kind == "round")
    assert fused.id.endswith("in-place-unproven")
    assert generated(tmp_path / "b", True, gamma=3) == generated(tmp_path / "b", plain=True)
    sampled = [generated(tmp_path / "b", how, gamma=3, temperature=0.9) for how in (True, False)]
    assert sampled[0] == sampled[1]
    cache = next(s for s in fused.state if s.also)
    (bound,) = [c.addresses for c in fakes.trt.contexts if cache.name in c.addresses][:1]
    again = [name for name in bound if name.startswith(f"{cache.name}.again_")]
    assert len(again) == len(cache.also) == 2
    assert len({bound[name] for name in (cache.name, cache.output, *cache.also, *again)}) == 1


def test_an_engine_that_copies_a_cache_is_refused(root: Path, install: Callable[..., Fakes]) -> None:
    install().trt.copied.add("present.1.value")
    with refuses(EngineError, "does not update 'past.1.value' in place"):
        load_programs(open_bundle(root))


def test_reset_zeroes_the_caches(root: Path, install: Callable[..., Fakes]) -> None:
    install()
    programs: Programs = load_programs(open_bundle(root))
    tokens = np.array(PROMPT)
    first = np.array(programs.verify(tokens[:1], 0, 1))
    programs.verify(tokens, 0, 1)
    programs.reset()
    np.testing.assert_array_equal(programs.verify(tokens[:1], 0, 1), first)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ({"capability": (8, 9)}, ("for sm90 (target h100)", "the GPU here is sm89", "--target")),
        ({"error": CudaError.cudaErrorInsufficientDriver}, ("no driver finds one here", "install the driver")),
        ({"error": CudaError.cudaErrorNoDevice}, ("no driver finds one here",)),
        ({"devices": 0}, ("no driver finds one here",)),
        ({"error": CudaError.cudaErrorInvalidValue}, ("cudaGetDeviceCount failed on the GPU: cudaErrorInvalidValue",)),
        ({"version": "10.16.1"}, ('need "tensorrt>=11"', "10.16.1 is installed")),
    ],
)
def test_machines_that_do_not_suit(
    root: Path, install: Callable[..., Fakes], device: dict[str, Any], words: tuple[str, ...]
) -> None:
    fakes = install(**device)
    with refuses(EngineError, *words):
        load_programs(open_bundle(root))
    assert fakes.trt.contexts == []


def test_a_missing_library_is_named(root: Path, install: Callable[..., Fakes], monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    for module, words in (("cuda.bindings.runtime", "cuda-python"), ("tensorrt", 'pip install "tensorrt>=11"')):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, module, None)
            with refuses(EngineError, words):
                load_programs(open_bundle(root))


def test_engines_that_are_not_built_yet(root: Path, install: Callable[..., Fakes], tmp_path: Path) -> None:
    install()
    bundle = Bundle(tmp_path, open_bundle(root).manifest)
    with refuses(EngineError, "not built yet", "build_tensorrt.py"):
        load_programs(bundle)


def test_engines_built_ahead_want_their_very_version(root: Path, install: Callable[..., Fakes]) -> None:
    """A built bundle names TensorRT-RTX and what it was built for; its engines lie where the manifest says."""
    fakes = install("tensorrt_rtx", "1.7.1.116", capability=(8, 6))
    opened = open_bundle(root)

    def built(requires: tuple[str, ...]) -> Bundle:
        programs = tuple(
            replace(p, built=True, requires=requires, file=p.file.replace(".onnx", ".engine"))
            for p in opened.manifest.programs
        )
        return Bundle(opened.root, replace(opened.manifest, programs=programs))

    assert load_programs(built(("tensorrt-rtx==1.7.1.116", "cuda:sm80|sm86"))).max_width(VERIFIER) > 2
    made = len(fakes.trt.contexts)
    with refuses(EngineError, 'need "tensorrt-rtx==1.7.2"', "1.7.1.116 is installed"):
        load_programs(built(("tensorrt-rtx==1.7.2", "cuda:sm86")))
    with refuses(EngineError, "does not know what its programs require", "cuda:gfx942"):
        load_programs(built(("tensorrt-rtx==1.7.1.116", "cuda:gfx942")))
    assert len(fakes.trt.contexts) == made


def test_programs_that_need_different_engines_are_refused(root: Path) -> None:
    first, *others = open_bundle(root).manifest.programs
    with refuses(EngineError, "need different engines"):
        requirements([replace(first, requires=("tensorrt>=12", "cuda:sm90")), *others])


def test_a_file_that_is_no_engine(root: Path, install: Callable[..., Fakes], tmp_path: Path) -> None:
    install()
    for file in {p.file for p in open_bundle(root).manifest.programs}:
        path = (tmp_path / file).with_suffix(".engine")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"none")
    with refuses(EngineError, "TensorRT 11.1.0 does not load it"):
        load_programs(Bundle(tmp_path, open_bundle(root).manifest))


def test_the_fakes_offer_what_the_libraries_have() -> None:
    trt = pytest.importorskip("tensorrt_rtx", reason='needs the library: pip install "specc[tensorrt]"')
    cuda = pytest.importorskip("cuda.bindings.runtime", reason="needs the library: pip install cuda-python")
    for name in (name for name in dir(FakeCuda) if name.startswith("cuda")):
        assert hasattr(cuda, name), name
        values = getattr(FakeCuda, name)
        for value in vars(values) if not callable(values) and hasattr(values, "__dict__") else ():
            assert value.startswith("_") or hasattr(getattr(cuda, name), value), value
    methods = [name for name in vars(FakeContext) if not name.startswith("_")]
    assert all(hasattr(trt.IExecutionContext, name) for name in methods)
    assert hasattr(trt.Runtime, "deserialize_cuda_engine")
    for name in (
        "create_execution_context",
        "get_aliased_input_tensor",
        "get_tensor_profile_shape",
        "num_optimization_profiles",
    ):
        assert hasattr(trt.ICudaEngine, name)
