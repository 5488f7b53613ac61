"""The second way, onnxruntime-migraphx: what it computes, on the CPU's provider, and that the provider really runs."""

import importlib
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import open_bundle
from specc_runtime.engines import load_programs
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program
from tests.support.resigning import edit_manifest
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator
from tests.support.tiny_models import compiled, tiny_model

NAME = "specc_runtime.engines.migraphx_ort"
PROVIDER, CPU = "MIGraphXExecutionProvider", "CPUExecutionProvider"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One model for MIGraphX and for the CPU."""
    root = tmp_path_factory.mktemp("second")
    compiled(tiny_model(root / "m"), root / "gpu", target="mi300x", gammas=(2,))
    compiled(root / "m", root / "cpu", gammas=(2,))
    return root / "gpu", root / "cpu"


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The engine's module, on a machine whose ONNX Runtime says that it has the provider."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [PROVIDER, CPU])
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    module = importlib.import_module(NAME)
    monkeypatch.delitem(sys.modules, NAME)
    return module


def portable(bundle: Path) -> list[Program]:
    return list(open_bundle(bundle).manifest.programs)


def test_the_onnx_computes_the_ort_bundles_text(bundles: tuple[Path, Path], second: ModuleType) -> None:
    opened = open_bundle(bundles[0])
    here = Engine(opened, second.portable_programs(opened, portable(bundles[0]), CPU))
    there = Engine.load(bundles[1])
    for params in (SamplingParams(max_new_tokens=40), SamplingParams(max_new_tokens=40, temperature=0.9, seed=3)):
        found, expected = (engine.generate([5, 1, 33], params, gamma=2).finish().ids for engine in (here, there))
        assert found == expected


@pytest.mark.parametrize("gamma", [1, 3])
def test_a_drafter_that_reads_features(
    second: ModuleType, bundles: tuple[Path, Path], tmp_path: Path, gamma: int
) -> None:
    flags = {"norm_before_residual": True, "fc_norm": True}
    config = speculator_config(layer_config(), head_rows=20, feature_layers=(0, 1, 3), **flags)
    drafter = write_speculator(
        tmp_path / "d", config, speculator_weights(layer_config(), seed=1, **flags), np.arange(3, 23)
    )
    model = bundles[0].parent / "m"
    for name, target in (("gpu", "mi300x"), ("cpu", "cpu")):
        compiled(model, tmp_path / name, draft=str(drafter), target=target, gammas=(gamma,))
    opened = open_bundle(tmp_path / "gpu")
    here = Engine(opened, second.portable_programs(opened, portable(tmp_path / "gpu"), CPU))
    there = Engine.load(tmp_path / "cpu")
    for options in ({}, {"temperature": 0.9, "seed": 3}, {"temperature": 0.9, "seed": 3, "repetition_penalty": 1.2}):
        params = SamplingParams(max_new_tokens=30, ignore_eos=True, **options)
        found, expected = (engine.generate([50, 60, 7], params, gamma=gamma).finish() for engine in (here, there))
        assert found.ids == expected.ids
        assert found.stats.spec_decode_num_accepted_tokens == expected.stats.spec_decode_num_accepted_tokens


def test_reset_zeroes_the_caches(bundles: tuple[Path, Path], second: ModuleType) -> None:
    opened = open_bundle(bundles[0])
    programs = second.portable_programs(opened, portable(bundles[0]), CPU)
    first = programs.verify(np.array([5]), 3, 1).copy()
    programs.verify(np.array([7, 8, 9]), 0, 0)
    assert np.abs(programs.verify(np.array([5]), 3, 1) - first).max() > 0
    programs.reset()
    np.testing.assert_array_equal(programs.verify(np.array([5]), 3, 1), first)


def test_a_provider_that_falls_back_is_refused(
    bundles: tuple[Path, Path], second: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for MIGraphX, ONNX Runtime gives a session on the CPU and says nothing."""
    asked = {}

    class Session:
        def __init__(self, path: str, options: onnxruntime.SessionOptions, providers: list[str]) -> None:
            asked["providers"] = providers
            asked["fallback"] = options.get_session_config_entry("session.disable_cpu_ep_fallback")

        def get_providers(self) -> list[str]:
            return [CPU]

    monkeypatch.setattr(second, "InferenceSession", Session)
    with pytest.raises(EngineError, match=f"runs it on {CPU}, not on {PROVIDER}: pip install onnxruntime-migraphx"):
        second.load(open_bundle(bundles[0]))
    assert asked == {"providers": [PROVIDER], "fallback": "1"}


def test_the_engine_takes_it_where_migraphxs_own_module_is_missing(
    bundles: tuple[Path, Path], second: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "migraphx", None)
    monkeypatch.setitem(sys.modules, NAME, second)
    monkeypatch.setattr(second, "PROVIDER", CPU)
    programs = load_programs(open_bundle(bundles[0]))
    assert programs.verify(np.array([5]), 0, 1).shape == (1, 300)


def test_a_program_it_does_not_take_is_named(
    bundles: tuple[Path, Path], second: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError("no such device\nmore")

    monkeypatch.setattr(second, "InferenceSession", refuses)
    with pytest.raises(
        EngineError, match=rf"verifier\.prefill\.48\.onnx: {PROVIDER} does not take it \(no such device\): .*script$"
    ):
        second.load(open_bundle(bundles[0]))


def test_a_built_bundle_needs_migraphxs_own_module(
    bundles: tuple[Path, Path], second: ModuleType, tmp_path: Path
) -> None:
    shutil.copytree(bundles[0], tmp_path / "b")

    def change(document: dict) -> None:
        for program in document["programs"]:
            name = program["file"].replace(".onnx", ".mxr")
            document["files"][name] = document["files"][program["file"]]
            (tmp_path / "b" / name).write_bytes((tmp_path / "b" / program["file"]).read_bytes())
            program.update(file=name, built=True)

    edit_manifest(tmp_path / "b", change)
    with pytest.raises(EngineError, match=r"its programs are \.mxr files: install MIGraphX's Python module"):
        second.load(open_bundle(tmp_path / "b"))


def test_an_onnxruntime_without_the_provider_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    with pytest.raises(EngineError, match=f"ONNX Runtime .* lacks the {PROVIDER}"):
        importlib.import_module(NAME)
