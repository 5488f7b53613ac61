"""The tokens a trimmed drafter head may propose: frequency-ranked speech (FR-Spec, Zhao et al. 2025)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specc.errors import OptionError
from specc.options import DraftVocabulary


def head_ids(
    wanted: DraftVocabulary, common: int, always: tuple[int, ...], counted: Callable[[], NDArray[np.int64]]
) -> NDArray[np.int32]:
    """Full ids of the kept head rows, ascending int32.

    common: ids below it may be proposed. always: ids that stay whatever their count (EOS). counted: ids of the text
    whose frequencies rank the rest; ties, and tokens it lacks, go by id, since frequent merges are learned first.
    Raises OptionError: more tokens than there are, or a file that is no list of ids.
    """
    if wanted.file is not None:
        return _from_file(wanted.file, common)
    count = wanted.count or common
    if count > common:
        raise OptionError(f"draft-vocab: {count} tokens of a vocabulary of {common}; give at most {common}")
    frequency = np.bincount(counted(), minlength=common)[:common].astype(np.int64)
    frequency[[i for i in always if i < common]] = np.iinfo(np.int64).max
    ranked = np.lexsort((np.arange(common), -frequency))
    return np.sort(ranked[:count]).astype(np.int32)


def _from_file(path: Path, common: int) -> NDArray[np.int32]:
    try:
        ids = sorted({int(word) for word in path.read_text(encoding="utf-8").split()})
    except (OSError, ValueError) as error:
        found = "is neither a number of tokens nor a file" if isinstance(error, FileNotFoundError) else error
        raise OptionError(
            f"draft-vocab: {path}: {found}; give e.g. 8192, or a file with one token id a line"
        ) from error
    if len(ids) < 2 or ids[0] < 0 or ids[-1] >= common:
        raise OptionError(f"draft-vocab: {path}: give at least 2 ids, each from 0 to {common - 1}")
    return np.asarray(ids, dtype=np.int32)
