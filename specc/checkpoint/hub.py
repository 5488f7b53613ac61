"""`org/name`: a model of the Hugging Face hub, downloaded or taken from its cache."""

import re
from pathlib import Path

from specc.errors import CheckpointError

_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# Weights in one format and the files read beside them: repositories often hold several formats of the same model.
_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "README.md",
)


def is_model_id(reference: str) -> bool:
    """Whether the text has the form `org/name`."""
    return _MODEL_ID.fullmatch(reference) is not None


def download(model_id: str) -> Path:
    """The folder with the model's files, of which only those specc reads are fetched.

    Without a network, or with HF_HUB_OFFLINE set, the hub's cache is used. Raises CheckpointError if that lacks it.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model_id, allow_patterns=list(_FILES)))
    except Exception as online:  # the hub's, its transport's and the disk's errors share no base
        try:
            return Path(snapshot_download(model_id, allow_patterns=list(_FILES), local_files_only=True))
        except Exception:
            reason = " ".join(str(online).split())
            raise CheckpointError(
                f"{model_id}: neither a file here, nor in the Hugging Face cache, nor downloadable ({reason:.300}); "
                "check the spelling and the network, log in if it is gated, or give the path of a directory"
            ) from online
