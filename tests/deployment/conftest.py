from pathlib import Path

import pytest

from tests.support.tiny_models import TinyBundles


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled tiny model with a slice of it as drafter."""
    return TinyBundles(tmp_path_factory.mktemp("tiny")).bundle()
