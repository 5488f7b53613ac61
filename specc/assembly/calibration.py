"""The calibration text: what token counts and distances are measured on."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from specc.assembly.sources import ModelSource
from specc.errors import CheckpointError, OptionError
from specc.resources import data_folder

DEFAULT = "default.txt"


def read_calibration(file: Path | None) -> str:
    """The user's text, or the shipped one. Raises OptionError when it can't be read as UTF-8 text."""
    source = data_folder("calibration") / DEFAULT if file is None else file
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"calibration: {source}: {error}; give a UTF-8 text file") from error
    if not text.strip():
        raise OptionError(f"calibration: {source}: is empty; give a text of a few thousand words")
    return text


def calibration_ids(text: str, source: ModelSource) -> NDArray[np.int64]:
    """Token ids of `text` under the model's tokenizer.

    Raises CheckpointError when it has no tokenizer, OptionError when the text gives no token.
    """
    if source.checkpoint.tokenizer is None:
        raise CheckpointError(f"{source.checkpoint.path}: no tokenizer, so no text can be measured; add tokenizer.json")
    tokenizer = Tokenizer.from_str(source.checkpoint.tokenizer.json)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    if not ids:
        raise OptionError(f"calibration: the text has no token of {source.checkpoint.path}'s tokenizer; give another")
    return np.asarray(ids, dtype=np.int64)
