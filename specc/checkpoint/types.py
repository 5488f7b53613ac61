"""What a checkpoint is once it has been opened, whatever file it came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class WeightTensor(Protocol):
    """One weight: its header is known, its bytes are read only by `numpy()`."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype that `numpy()` returns: float32, float16 or ml_dtypes.bfloat16 for weights; buffers keep theirs."""
        ...

    def numpy(self) -> np.ndarray:
        """The values, read (and for GGUF dequantised exactly) now.

        Shape `shape`; a read-only map where the file allows it.
        """
        ...


class Weights(Mapping[str, WeightTensor]):
    """Weights by Hugging Face name (`model.layers.0.self_attn.q_proj.weight`), `[out, in]` layout."""

    def __init__(self, tensors: Mapping[str, WeightTensor]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> WeightTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@dataclass(frozen=True)
class TokenizerFiles:
    """The tokenizer as files a deployment needs.

    json: text of a tokenizer.json that `tokenizers.Tokenizer.from_str` loads.
    chat_template: jinja2 source, or None.
    bos_id, eos_ids, pad_id: ids a generation starts with, ends at, is padded with.
    add_bos: whether a raw prompt starts with bos_id. `json` agrees: with add_special_tokens it encodes "" to
        [bos_id] if so, else to [].
    """

    json: str
    chat_template: str | None = None
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    add_bos: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint.

    source: what the user wrote. path: the file or folder it resolved to.
    config: config.json's content; for GGUF the same fields rebuilt from the file's metadata.
    provenance: facts for the manifest (format, licence if stated, revision, hashes of small files).
    """

    source: str
    path: str
    config: Mapping[str, Any]
    weights: Weights
    tokenizer: TokenizerFiles | None
    provenance: Mapping[str, Any] = field(default_factory=dict)
