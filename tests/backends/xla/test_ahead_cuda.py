"""Real executables for NVIDIA GPUs that are not here: `make test-aot`."""

from pathlib import Path

import pytest

pytest.importorskip("jax_cuda13_plugin", reason="compiling for GPUs needs the extra specc[cuda-aot]: make test-aot")

from specc.backends.xla.topologies import prepare_environment
from specc.errors import OptionError
from tests.backends.xla.ahead_bundles import built, check_executables
from tests.support.refusals import refuses
from tests.support.tiny_models import tiny_model

prepare_environment()

IDENTITIES = {"a100": "8.0", "h100": "9.0", "h200": "9.0", "b200": "10.0"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("ahead") / "model", max_position_embeddings=256)


@pytest.mark.parametrize("target", IDENTITIES)
def test_every_gpu(model: Path, tmp_path: Path, target: str) -> None:
    manifest = built(model, tmp_path / "bundle", target)
    check_executables(manifest, tmp_path / "bundle", {"jaxlib", "jax-cuda13-pjrt", "compute_capability"})
    for program in manifest.programs:
        assert program.executable is not None
        assert program.executable.made_for["compute_capability"] == IDENTITIES[target]
        assert "platform=cuda" in program.requires


def test_eight_chips_share_the_caches(tmp_path: Path) -> None:
    fields = {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 64, "intermediate_size": 128}
    model = tiny_model(tmp_path / "model", max_position_embeddings=256, **fields)
    manifest = built(model, tmp_path / "bundle", "h100:8", fuse=False)
    check_executables(manifest, tmp_path / "bundle", {"jaxlib", "jax-cuda13-pjrt", "compute_capability"})
    assert {program.devices for program in manifest.programs} == {8}


def test_16_and_8_bits(model: Path, tmp_path: Path) -> None:
    manifest = built(model, tmp_path / "bundle", "h100", precision="int8,kv=bf16,embedding=bf16")
    assert all(program.built for program in manifest.programs)


def test_options_of_the_compiler_are_recorded_and_unknown_ones_refused_by_name(model: Path, tmp_path: Path) -> None:
    given = {"xla_gpu_autotune_level": "0"}
    manifest = built(model, tmp_path / "bundle", "a100", xla_options=given)
    assert all(p.executable is not None and p.executable.options == given for p in manifest.programs)
    for options, told in (({"xla_nonsense": "1"}, "'xla_nonsense'"), ({next(iter(given)): "many"}, "'many'")):
        with refuses(OptionError, "xla-option: XLA's compiler refuses it", told):
            built(model, tmp_path / "other", "a100", xla_options=options)
