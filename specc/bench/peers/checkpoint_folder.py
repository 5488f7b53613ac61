"""The checkpoint as a Hugging Face folder, for engines that convert one: values as specc reads them."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from specc.checkpoint import open_checkpoint


def write_checkpoint_folder(model: str, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer of checkpoint `model` to `folder`, which is made."""
    folder.mkdir(parents=True)
    checkpoint = open_checkpoint(model)
    weights = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in checkpoint.weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(dict(checkpoint.config)), encoding="utf-8")
    if checkpoint.tokenizer is not None:
        (folder / "tokenizer.json").write_text(checkpoint.tokenizer.json, encoding="utf-8")
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
