"""The vocabulary in a GGUF file's metadata: token texts by id, and what kind each is."""

from dataclasses import dataclass
from typing import Any

from gguf.constants import TokenType

from specc.checkpoint.gguf_metadata import Metadata
from specc.errors import CheckpointError

_AGAIN = "convert the model again"


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id with their kinds (`gguf.TokenType`); `ids` leaves out the fillers converters pad with."""

    tokens: list[str]
    kinds: list[int]
    ids: dict[str, int]

    def added_tokens(self) -> list[dict[str, Any]]:
        """tokenizer.json's `added_tokens`: what is matched in text as it stands, before any splitting."""
        special = (TokenType.CONTROL, TokenType.UNKNOWN)
        return [
            {
                "id": index,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": self.kinds[index] in special,
            }
            for token, index in self.ids.items()
            if self.kinds[index] in (*special, TokenType.USER_DEFINED)
        ]

    def unknown_token(self) -> str | None:
        """The token that stands for text without one, if there is any."""
        return next((token for token, index in self.ids.items() if self.kinds[index] == TokenType.UNKNOWN), None)


def read_vocabulary(metadata: Metadata) -> Vocabulary:
    """The file's vocabulary. Raises CheckpointError if a token is empty or appears twice, or the arrays disagree."""
    tokens_key, kinds_key = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    tokens = metadata.required(tokens_key, metadata.texts(tokens_key))
    kinds = metadata.required(kinds_key, metadata.numbers(kinds_key)).tolist()
    if len(kinds) != len(tokens):
        raise CheckpointError(
            f"{metadata.path}: {tokens_key} has {len(tokens)} entries, {kinds_key} {len(kinds)}; {_AGAIN}"
        )
    ids: dict[str, int] = {}
    for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind == TokenType.UNUSED and token == f"[PAD{index}]":
            continue
        if not token or token in ids:
            first = f"is also token {ids[token]}" if token else "is empty"
            raise CheckpointError(f"{metadata.path}: {tokens_key}: token {index} {token!r:.40} {first}; {_AGAIN}")
        ids[token] = index
    return Vocabulary(tokens, kinds, ids)


def token_id(metadata: Metadata, name: str, vocabulary: Vocabulary) -> int | None:
    """The id `tokenizer.ggml.NAME` holds; None where the key is absent. Raises CheckpointError if no token has it."""
    key = f"tokenizer.ggml.{name}"
    index = metadata.integer(key)
    if index is not None and not 0 <= index < len(vocabulary.tokens):
        raise CheckpointError(
            f"{metadata.path}: {key} is {index}, but there are {len(vocabulary.tokens)} tokens; {_AGAIN}"
        )
    return index
