"""Checkpoints: opened from wherever they are, described by one record, their tensors read only when asked for."""

from dataclasses import replace
from pathlib import Path

from specc.checkpoint.gguf_checkpoint import open_gguf
from specc.checkpoint.hf_directory import open_hf_directory
from specc.checkpoint.hub import download, is_model_id
from specc.checkpoint.package import SCHEME, locate_in_package
from specc.checkpoint.speculator import is_speculator
from specc.checkpoint.types import Checkpoint, TokenizerFiles, Weights, WeightTensor
from specc.errors import CheckpointError

__all__ = ["Checkpoint", "TokenizerFiles", "WeightTensor", "Weights", "find_speculator", "open_checkpoint"]

_FORMS = "give a Hugging Face directory, a .gguf file, pkg://PACKAGE[/FILE], or a model id org/name"


def open_checkpoint(ref: str) -> Checkpoint:
    """Open the checkpoint that `ref` means; only headers, config and tokenizer are read.

    ref: a Hugging Face directory, a .gguf file, `pkg://PACKAGE[/FILE]` for a GGUF inside an installed package, or a
    model id `org/name` on the hub or in its cache. A path that exists wins over a model id.
    Raises CheckpointError, in one line naming the file and the fix.
    """
    if ref.startswith(SCHEME):
        return open_gguf(locate_in_package(ref), ref)
    path = _existing(ref)
    if path is not None:
        return open_hf_directory(path, ref) if path.is_dir() else _open_file(path, ref)
    if is_model_id(ref) and not ref.endswith((".gguf", ".safetensors")):
        folder = download(ref)
        checkpoint = open_hf_directory(folder, ref)
        return replace(checkpoint, provenance={**checkpoint.provenance, "revision": folder.name})
    raise CheckpointError(f"{ref!r:.200}: no such file or directory; {_FORMS}")


def find_speculator(ref: str) -> Path | None:
    """The folder that `ref` means, if it holds a drafter made for a verifier (see `speculator`).

    ref: a directory, or a model id on the hub or in its cache. Raises CheckpointError as `open_checkpoint` does.
    """
    path = _existing(ref)
    if path is None and is_model_id(ref) and not ref.endswith((".gguf", ".safetensors")):
        path = download(ref)
    return path if path is not None and path.is_dir() and is_speculator(path) else None


def _existing(ref: str) -> Path | None:
    """`ref` as a path, if something is there; `~` is the home folder."""
    try:
        path = Path(ref).expanduser()
        return path if ref and path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, no home folder, a zero byte
        return None


def _open_file(path: Path, ref: str) -> Checkpoint:
    if path.suffix == ".safetensors" or path.suffix == ".json":
        raise CheckpointError(f"{path}: one file of a checkpoint; give its directory, {path.parent}")
    return open_gguf(path, ref)
