"""A GGUF file as a checkpoint: config, weights and tokenizer, all from the one file."""

import hashlib
import json
from collections import Counter
from pathlib import Path

from specc.checkpoint.gguf_config import gguf_config
from specc.checkpoint.gguf_file import read_gguf
from specc.checkpoint.gguf_names import ARCHITECTURES, gguf_weights
from specc.checkpoint.gguf_tokenizer import gguf_tokenizer
from specc.checkpoint.types import Checkpoint, Weights


def open_gguf(path: Path, source: str) -> Checkpoint:
    """Open a GGUF file; only its header is read. Raises CheckpointError naming the file and the fix."""
    gguf = read_gguf(path)
    config = gguf_config(gguf)
    weights = gguf_weights(gguf, ARCHITECTURES[gguf.metadata["general.architecture"]], config)
    tokenizer = gguf_tokenizer(gguf.metadata)
    rebuilt = {"config.json": json.dumps(config, sort_keys=True)}
    if tokenizer is not None:
        rebuilt["tokenizer.json"] = tokenizer.json
    provenance = {
        "format": "gguf",
        "licence": gguf.metadata.text("general.license"),
        "name": gguf.metadata.text("general.name"),
        "tensor_types": dict(Counter(info.type.name for info in gguf.tensors.values())),
        "sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in rebuilt.items()},
        "bytes": {path.name: gguf.file.size},
    }
    return Checkpoint(
        source=source,
        path=str(path),
        config=config,
        weights=Weights(weights),
        tokenizer=tokenizer,
        provenance=provenance,
    )
