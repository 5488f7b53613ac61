from pathlib import Path

import pytest

from specc.backends.xla import topologies
from specc.backends.xla.topologies import COMPILERS, Compiler, chip_of, missing_compiler, portable_because
from specc.targets import load_target
from tests.support.tiny_models import compiled, tiny_model

EXTRAS = {"tpu-v5e": "specc[tpu]", "h100": "specc[cuda-aot]"}


@pytest.fixture
def without_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is found, whatever is installed here."""
    absent = {name: Compiler("no_such_module", (), made.extra, made.identity) for name, made in COMPILERS.items()}
    monkeypatch.setattr(topologies, "COMPILERS", absent)


@pytest.mark.usefixtures("without_compilers")
@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_compiler_is_one_line_that_says_what_installs_it(name: str) -> None:
    target = load_target(name)
    assert chip_of(target) is None
    assert missing_compiler(target) == f"pip install '{EXTRAS[name]}'"
    assert portable_because(target) == (
        f"programs for {name} are compiled where they are loaded; to do it here: pip install '{EXTRAS[name]}'"
    )


@pytest.mark.usefixtures("without_compilers")
def test_a_compile_without_the_compiler_says_so_and_is_portable(tmp_path: Path) -> None:
    """Its caches have the rows that the chip wants all the same."""
    target = load_target("tpu-v5e")
    report = compiled(tiny_model(tmp_path / "model"), tmp_path / "bundle", "ngram", target=target.name)
    assert report.warnings == (portable_because(target),)
    assert not any(program.built for program in report.manifest.programs)
    assert report.manifest.context + report.manifest.slack == 128
    assert {state.shape[-2] for program in report.manifest.programs for state in program.state} == {128}


def test_what_nothing_compiles_for_here() -> None:
    """AMD's GPUs need one at hand; this machine's own processor is compiled for when it loads a program."""
    for name in ("mi300x", "cpu"):
        assert chip_of(load_target(name)) is None
        assert missing_compiler(load_target(name)) is None
    assert portable_because(load_target("cpu")) is None
    assert portable_because(load_target("mi300x")) == (
        "programs for mi300x are compiled where they are loaded; it can't be done without one"
    )
