"""Real executables for TPUs that are not here: `make test-aot`."""

from pathlib import Path

import pytest

pytest.importorskip("libtpu", reason="compiling for TPUs needs the extra specc[tpu], 1.3 GB: make test-aot")

from specc.backends.xla.ahead import Built, build
from specc.backends.xla.layout import Layout
from specc.backends.xla.machine import machine_of
from specc.backends.xla.program import step_program
from specc.backends.xla.sharing import Shares
from specc.backends.xla.topologies import chip_of, prepare_environment
from specc.errors import BuildError, OptionError
from specc.targets import load_target
from tests.backends.xla.abstract_model import eight_billion
from tests.backends.xla.ahead_bundles import built, check_executables
from tests.support.refusals import refuses
from tests.support.tiny_models import tiny_model

prepare_environment()

TPUS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("ahead") / "model", max_position_embeddings=256)


@pytest.mark.parametrize("target", TPUS)
def test_every_tpu(model: Path, tmp_path: Path, target: str) -> None:
    bundle = tmp_path / "bundle"
    check_executables(built(model, bundle, target), bundle, {"jaxlib", "libtpu", "device"})


def test_eight_chips_share_the_caches(tmp_path: Path) -> None:
    fields = {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 64, "intermediate_size": 128}
    model = tiny_model(tmp_path / "model", max_position_embeddings=256, **fields)
    manifest = built(model, tmp_path / "bundle", "tpu-v5e:2x4", fuse=False)
    check_executables(manifest, tmp_path / "bundle", {"jaxlib", "libtpu", "device"})
    assert {program.devices for program in manifest.programs} == {8}


def test_16_and_8_bits(model: Path, tmp_path: Path) -> None:
    manifest = built(model, tmp_path / "bundle", "tpu-v5e", precision="int8,kv=bf16,embedding=bf16")
    assert all(program.built for program in manifest.programs)


def test_a_model_that_does_not_fit_is_refused_with_the_sizes(model: Path, tmp_path: Path) -> None:
    small = tmp_path / "tiny-tpu.toml"
    text = (Path(__file__).parents[3] / "targets" / "tpu-v5e.toml").read_text(encoding="utf-8")
    small.write_text(text.replace('"tpu-v5e"', '"tiny-tpu"').replace("memory_gib = 16", "memory_gib = 0.001"))
    with refuses(BuildError, "does not fit the 0.001 GiB of tiny-tpu", "argument", "temp", "--precision int8"):
        built(model, tmp_path / "bundle", str(small))


def verification_of_eight_billion(*, quantised: bool, target: str = "tpu-v5e") -> Built:
    """Five tokens with 8192 cache rows."""
    core, machine = eight_billion(8192, quantised=quantised), load_target(target)
    chip, layout = chip_of(machine), Layout([core], Shares.of(core, machine))
    assert chip is not None
    return build("verify", step_program(core, layout, machine_of(machine), 5, 5), chip)


def test_eight_billion_weights_in_8_bits_fit_a_small_chip() -> None:
    """No weight is ever dequantised: what the program needs besides its arguments is next to nothing."""
    sizes = verification_of_eight_billion(quantised=True).sizes
    assert sizes["alias"] == 2 * 32 * 8 * 8192 * 128 * 2
    assert sizes["argument"] < 10 << 30
    assert sizes["temp"] < 16 << 20


def test_eight_billion_weights_in_16_bits_are_refused_with_the_compilers_sizes() -> None:
    with refuses(BuildError, "verify does not fit the target's memory", "exceeds available HBM (15.75G)"):
        verification_of_eight_billion(quantised=False)


def test_eight_chips_take_an_eighth_of_them_each() -> None:
    """In 16 bits: 16.1 GB of weights and 1.1 of caches, cut; norms and rotations are whole."""
    sizes = verification_of_eight_billion(quantised=False, target="tpu-v5e:2x4").sizes
    assert sizes["alias"] == 2 * 32 * 8 * 8192 * 128 * 2 // 8
    assert 16.1e9 / 8 < sizes["argument"] - sizes["alias"] < 16.1e9 / 8 + 16e6
    assert sizes["temp"] < 16 << 20


def test_options_of_the_compiler_are_recorded_and_unknown_ones_refused_by_name(model: Path, tmp_path: Path) -> None:
    given = {"xla_tpu_scoped_vmem_limit_kib": "16384"}
    manifest = built(model, tmp_path / "bundle", "tpu-v5e", xla_options=given)
    assert all(p.executable is not None and p.executable.options == given for p in manifest.programs)
    for options, told in (({"xla_nonsense": "1"}, "'xla_nonsense'"), ({next(iter(given)): "many"}, "'many'")):
        with refuses(OptionError, "xla-option: XLA's compiler refuses it", told):
            built(model, tmp_path / "other", "tpu-v5e", xla_options=options)
