import pytest

from tests.support.tiny_models import TinyBundles


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyBundles:
    """Tiny checkpoints and bundles, each made once for all tests here; none is changed."""
    return TinyBundles(tmp_path_factory.mktemp("tiny"))
