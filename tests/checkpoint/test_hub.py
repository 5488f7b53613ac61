import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc.checkpoint.hub import is_model_id
from specc.errors import CheckpointError
from tests.support.checkpoints import decoder_config, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.refusals import refuses

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty hub cache, and no network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def cache_model(cache, model_id):
    folder = cache / f"models--{model_id.replace('/', '--')}"
    weights = {"model.norm.weight": np.ones(3, np.float32)}
    write_hf_checkpoint(folder / "snapshots" / REVISION, decoder_config(), weights, tiny_tokenizer_json(300))
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(REVISION)


def test_cached_model_opens_offline(cache):
    cache_model(cache, "org/tiny")
    checkpoint = open_checkpoint("org/tiny")
    assert checkpoint.source == "org/tiny"
    assert checkpoint.provenance["revision"] == REVISION
    assert list(checkpoint.weights) == ["model.norm.weight"]


def test_model_that_is_neither_cached_nor_reachable(cache):
    with refuses(CheckpointError, "org/tiny", "nor in the Hugging Face cache", "check the spelling and the network"):
        open_checkpoint("org/tiny")


def test_cache_is_used_when_the_hub_fails_in_a_way_of_its_own(cache, monkeypatch):
    """A proxy's error, for one, does not make the hub's client fall back to its cache by itself."""
    cache_model(cache, "org/tiny")
    snapshot_download = huggingface_hub.snapshot_download

    def behind_a_proxy(model_id, *, local_files_only=False, **options):
        if not local_files_only:
            raise ConnectionError("proxy says no")
        return snapshot_download(model_id, local_files_only=True, **options)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", behind_a_proxy)
    assert open_checkpoint("org/tiny").provenance["revision"] == REVISION
    with refuses(CheckpointError, "org/other", "(proxy says no)"):
        open_checkpoint("org/other")


def test_existing_path_wins_over_a_model_id(cache, tmp_path):
    cache_model(cache, "org/tiny")
    write_hf_checkpoint(tmp_path / "org" / "tiny", decoder_config(), {"local": np.ones(1, np.float32)})
    assert list(open_checkpoint("org/tiny").weights) == ["local"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HuggingFaceTB/SmolLM2-135M", True),
        ("a/b.c_d-e", True),
        ("model", False),
        ("a/b/c", False),
        ("./model", False),
        ("/abs", False),
        ("a b/c", False),
        ("", False),
    ],
)
def test_form_of_a_model_id(text, expected):
    assert is_model_id(text) is expected
