"""The migraphx engine on an AMD GPU. Skipped, with the reason, where there is none."""

from pathlib import Path

import numpy as np
import pytest

from specc.targets import known_targets, load_target
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import open_bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.migraphx_build import BuildOptions, build_programs
from specc_runtime.engines.migraphx_machine import this_machine
from tests.support.tiny_models import compiled, tiny_model

migraphx = pytest.importorskip("migraphx", reason="needs an AMD GPU, ROCm and MIGraphX's Python module")
PROMPT = [5, 1, 33, 60, 2, 17, 80, 4]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One model, built for this GPU and for the CPU."""
    gpus = this_machine(migraphx.__version__).gpus
    targets = [target for target in map(load_target, known_targets()) if target.architecture in gpus]
    if not targets:
        pytest.skip(f"no target file for the GPUs here: {', '.join(gpus) or 'none'}")
    root = tmp_path_factory.mktemp("device")
    compiled(tiny_model(root / "m"), root / "gpu", target=targets[0].name, gammas=(3,))
    compiled(root / "m", root / "cpu", gammas=(3,))
    build_programs(root / "gpu", BuildOptions(targets[0].architecture, targets[0].wavefront), print)
    return root / "gpu", root / "cpu"


def test_logits_are_the_cpus(bundles: tuple[Path, Path]) -> None:
    here, there = (load_programs(open_bundle(bundle)) for bundle in bundles)
    for programs in (here, there):
        programs.verify(np.array(PROMPT), 0, 0)
    found, expected = (p.verify(np.array([3, 9, 27, 81]), len(PROMPT), 4).copy() for p in (here, there))
    assert np.abs(found - expected).max() <= 1e-3


@pytest.mark.parametrize("plain", [True, False])
def test_greedy_text_is_the_cpus(bundles: tuple[Path, Path], plain: bool) -> None:
    params = SamplingParams(max_new_tokens=32)
    here, there = map(Engine.load, bundles)
    expected = there.generate(PROMPT, params, plain=True).finish().ids
    assert here.generate(PROMPT, params, gamma=3, plain=plain).finish().ids == expected
