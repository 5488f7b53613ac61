"""The script of a portable bundle, run with a stand-in for TensorRT and for the driver."""

import ctypes
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specc.backends.tensorrt.build_script import build_script
from specc.targets import load_target
from tests.support.linted import complaints

ENGINES = [
    ("programs/verifier.onnx", [{"tokens": (1, 1), "rows": (1,)}, {"tokens": (1, 5), "rows": (5,)}]),
    ("programs/round.onnx", []),
]


class FakeTensorrt:
    """The builder's side of TensorRT: notes what it is asked, and returns what it was told as an engine."""

    def __init__(self, version: str = "11.0.0", *, parses: bool = True, builds: bool = True) -> None:
        self.__version__ = version
        self.built: list[list[dict[str, Any]]] = []
        self.caches: list[bytes] = []
        self.tactic_sources: list[int] = []
        self.configs: list[Any] = []
        self.TacticSource = SimpleNamespace(EDGE_MASK_CONVOLUTIONS=3, JIT_CONVOLUTIONS=4)
        self._parses, self._builds = parses, builds
        self.NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=1)
        self.BuilderFlag, self.MemoryPoolType = SimpleNamespace(TF32="tf32"), SimpleNamespace(WORKSPACE="workspace")
        self.Logger = type("Logger", (), {"WARNING": 2, "__init__": lambda self, severity: None})

    def Builder(self, logger: Any) -> Any:
        return SimpleNamespace(
            create_network=lambda flags: None,
            create_builder_config=self._config,
            create_optimization_profile=self._profile,
            build_serialized_network=self._build,
        )

    def OnnxParser(self, network: Any, logger: Any) -> Any:
        error = SimpleNamespace(desc=lambda: "no such op")
        return SimpleNamespace(parse=self._parse, get_error=lambda index: error)

    def _parse(self, content: bytes, path: str) -> bool:
        assert Path(path).parent.name == "bundle", "external weights lie in the bundle's own folder"
        return self._parses

    def _config(self) -> Any:
        profiles: list[dict[str, Any]] = []
        config = SimpleNamespace(
            profiles=profiles,
            set_tactic_sources=self.tactic_sources.append,
            clear_flag=lambda flag: None,
            set_memory_pool_limit=lambda pool, size: None,
            create_timing_cache=self.caches.append,
            set_timing_cache=lambda cache, ignore_mismatch: None,
            get_timing_cache=lambda: SimpleNamespace(serialize=lambda: b"timed"),
            add_optimization_profile=profiles.append,
        )
        self.configs.append(config)
        return config

    def _profile(self) -> Any:
        shapes: dict[str, Any] = {}
        return _Profile(shapes)

    def _build(self, network: Any, config: Any) -> bytes | None:
        self.built.append([profile.shapes for profile in config.profiles])
        return b"engine" if self._builds else None


class _Profile:
    def __init__(self, shapes: dict[str, Any]) -> None:
        self.shapes = shapes

    def set_shape(self, name: str, least: Any, likely: Any, most: Any) -> None:
        assert least == likely == most
        self.shapes[name] = least


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs the script of a bundle for thor; the bundle's folder."""

    def call(trt: FakeTensorrt, capability: tuple[int, int] = (11, 0), devices_error: int = 0, **stated: Any) -> Path:
        bundle = tmp_path / "bundle"
        (bundle / "programs").mkdir(parents=True)
        for path, _ in ENGINES:
            (bundle / path).write_bytes(b"onnx")
        script = bundle / "build_tensorrt.py"
        script.write_text(build_script(replace(load_target("thor"), **stated), ENGINES), encoding="utf-8")

        def attribute(target: Any, number: int, device: int) -> int:
            target._obj.value = capability[number - 75]
            return 0

        driver = SimpleNamespace(cuInit=lambda flags: devices_error, cuDeviceGetAttribute=attribute)
        monkeypatch.setitem(sys.modules, "tensorrt", trt)
        monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
        monkeypatch.setattr(sys, "argv", [str(script)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        built = (bundle / ENGINES[0][0]).with_suffix(".engine").exists()
        assert ended.value.code == (0 if built else 1)
        return bundle

    return call


def test_an_engine_beside_every_file_each_with_its_profiles(run: Callable[..., Path]) -> None:
    trt = FakeTensorrt()
    bundle = run(trt)
    assert [(bundle / path).with_suffix(".engine").read_bytes() for path, _ in ENGINES] == [b"engine"] * 2
    assert trt.built == [profiles for _, profiles in ENGINES]
    assert trt.caches == [b"", b"timed"]
    assert (bundle / "timing.sm110.cache").read_bytes() == b"timed"
    assert [config.max_aux_streams for config in trt.configs] == [0, 0]
    assert trt.tactic_sources == []


def test_what_a_target_file_tells_the_builder(run: Callable[..., Path]) -> None:
    trt = FakeTensorrt()
    sources = ("EDGE_MASK_CONVOLUTIONS", "JIT_CONVOLUTIONS")
    bundle = run(trt, tactic_sources=sources, aux_streams=2, timing_cache=False)
    assert trt.tactic_sources == [1 << 3 | 1 << 4] * 2
    assert [config.max_aux_streams for config in trt.configs] == [2, 2]
    assert trt.caches == []
    assert not list(bundle.glob("*.cache"))


def test_it_is_linted_and_formatted(tmp_path: Path) -> None:
    assert complaints(build_script(load_target("thor"), ENGINES), tmp_path / "build_tensorrt.py") == ""


def test_titles_of_any_target_stay_texts() -> None:
    text = build_script(replace(load_target("thor"), title='A "quoted"\n""" title'), ENGINES)
    assert """TITLE = "A \\"quoted\\"\\n""" in text
    compile(text, "build_tensorrt.py", "exec")


def test_it_explains_itself_without_tensorrt(tmp_path: Path) -> None:
    script = tmp_path / "build_tensorrt.py"
    script.write_text(build_script(load_target("thor"), ENGINES), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=True)
    assert "file that keeps timings for the next build" in " ".join(done.stdout.split())
    assert "NVIDIA Jetson AGX Thor (T5000) (sm110)" in done.stdout


@pytest.mark.parametrize(
    ("trt", "machine", "words"),
    [
        (FakeTensorrt("10.9.0"), {}, "TensorRT 10.9.0 is installed, 11 or newer is needed"),
        (FakeTensorrt(), {"capability": (9, 0)}, "this bundle is for sm110, the GPU here is sm90"),
        (FakeTensorrt(), {"devices_error": 100}, "the NVIDIA driver finds no GPU"),
        (FakeTensorrt(parses=False), {}, "no such op"),
        (FakeTensorrt(builds=False), {}, "not built"),
    ],
)
def test_what_does_not_suit_is_said_in_a_line(
    run: Callable[..., Path],
    trt: FakeTensorrt,
    machine: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(trt, **machine)
    said = capsys.readouterr().err
    assert said.startswith("build_tensorrt: error: ")
    assert words in said
    assert said.count("\n") == 1
