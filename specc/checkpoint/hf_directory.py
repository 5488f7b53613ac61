"""A Hugging Face directory: config.json, one or many safetensors shards, tokenizer files."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from specc.checkpoint.hf_tokenizer import read_tokenizer
from specc.checkpoint.json_file import read_json_object
from specc.checkpoint.mapped_file import MappedFile
from specc.checkpoint.model_card import read_licence
from specc.checkpoint.safetensors_file import SafetensorsTensor, read_safetensors
from specc.checkpoint.types import Checkpoint, Weights
from specc.errors import CheckpointError

_AGAIN = "download or export it again"
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_HASHED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def open_hf_directory(directory: Path, source: str) -> Checkpoint:
    """Open a directory as transformers' `save_pretrained` writes it; tensors are mapped, not read.

    Raises CheckpointError naming the file and the fix.
    """
    config = read_json_object(directory / "config.json", _config_fix(directory))
    files, tensors = _read_weights(directory)
    tokenizer = read_tokenizer(directory, config)
    provenance = {
        "format": "safetensors",
        "licence": read_licence(directory),
        "sha256": {name: _sha256(directory / name) for name in _HASHED if (directory / name).is_file()},
        "bytes": {name: (directory / name).stat().st_size for name in files},
    }
    return Checkpoint(
        source=source,
        path=str(directory),
        config=config,
        weights=Weights(tensors),
        tokenizer=tokenizer,
        provenance=provenance,
    )


def _config_fix(directory: Path) -> str:
    if ggufs := sorted(path.name for path in directory.glob("*.gguf")):
        return f"to open a GGUF give the file itself, e.g. {directory / ggufs[0]}"
    return "give a directory as transformers' save_pretrained writes it, with its config.json"


def _read_weights(directory: Path) -> tuple[list[str], dict[str, SafetensorsTensor]]:
    """Names of the safetensors files, and every tensor in them."""
    if (directory / _SINGLE).exists():
        return [_SINGLE], read_safetensors(directory / _SINGLE)
    if not (directory / _INDEX).exists():
        raise CheckpointError(f"{directory / _SINGLE}: no such file; {_weights_fix(directory)}")
    weight_map = _read_index(directory / _INDEX)
    shards = {name: read_safetensors(directory / name) for name in dict.fromkeys(weight_map.values())}
    for tensor, shard in weight_map.items():
        if tensor not in shards[shard]:
            raise CheckpointError(
                f"{directory / shard}: holds no tensor {tensor!r}, although {_INDEX} says so; {_AGAIN}"
            )
    return list(shards), {tensor: shards[shard][tensor] for tensor, shard in weight_map.items()}


def _read_index(path: Path) -> dict[str, str]:
    """The index's `weight_map`: tensor name -> shard file beside the index."""
    weight_map = read_json_object(path, _AGAIN).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path}: has no weight_map of tensor names to files; {_AGAIN}")
    for tensor, shard in weight_map.items():
        if not _is_file_name(shard):
            raise CheckpointError(
                f"{path}: puts tensor {tensor!r} in {shard!r:.80}, which is no name of a file beside it; {_AGAIN}"
            )
        if not os.path.exists(path.parent / shard):  # unlike Path.exists it bears names too long for the disk
            raise CheckpointError(
                f"{path.parent / shard}: no such file, although {path.name} names it; download the missing shard"
            )
    return weight_map


def _is_file_name(value: object) -> bool:
    """Whether `value` names something in the index's own folder: no separators, no parent, nothing unprintable."""
    return isinstance(value, str) and value.isprintable() and not {"/", "\\"} & set(value) and value.strip(".") != ""


def _weights_fix(directory: Path) -> str:
    present = sorted(path.name for path in directory.iterdir())
    if any(name.startswith("pytorch_model") or name.endswith((".bin", ".pt", ".pth")) for name in present):
        return (
            "only PyTorch pickles are there, which specc does not load: convert to safetensors with transformers' "
            "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        )
    if others := [name for name in present if name.endswith(".safetensors")]:
        return f"rename {_listing(others)}, or download {_INDEX} too"
    return "the checkpoint has no weights: download its *.safetensors files"


def _listing(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _sha256(path: Path) -> str:
    return hashlib.sha256(MappedFile(path).view).hexdigest()
