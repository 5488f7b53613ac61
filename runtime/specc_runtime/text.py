"""Text to ids and back; `tokenizers` is imported only when a bundle's text is used."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import TokenizerInfo

if TYPE_CHECKING:
    from tokenizers import Tokenizer

REPLACEMENT = "\ufffd"  # what an unfinished or invalid UTF-8 sequence decodes to
MAX_HELD = 16  # a character has at most 4 bytes; more tokens than this without an end are not going to form one


class TextCodec:
    """A bundle's tokenizer. Special tokens written in a text are encoded as such, and leave no trace when decoded."""

    def __init__(self, path: Path, info: TokenizerInfo) -> None:
        self._tokenizer = _load(path)
        self._info = info

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; starts with the BOS id where the model wants one and the text does not bring it."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        except TypeError:  # what a str that has no UTF-8 form gives
            raise TokenizerError("the prompt holds bytes that are not text: give it in UTF-8") from None
        bos = self._info.bos_id
        return [bos, *ids] if self._info.add_bos and bos is not None and ids[:1] != [bos] else ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text


class TextStream:
    """Decodes a growing list of ids piece by piece; a character is given out once all of its bytes are there.

    A piece is the difference between two decodings that both start a few tokens back: decoders treat the start of a
    text specially (a leading space is dropped), and a character may be spread over several tokens.
    """

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._ids: list[int] = []  # a few ids already given out, then those held back
        self._given = 0  # how many of them are given out

    @property
    def holding(self) -> bool:
        """Whether the last ids are part of a character that is not finished."""
        return self._given < len(self._ids)

    def push(self, token: int) -> str:
        """The text that is complete with `token`; "" while a character is unfinished."""
        self._ids.append(token)
        return self._release(final=len(self._ids) - self._given > MAX_HELD)

    def flush(self) -> str:
        """The text still held back: bytes that never became a character, as U+FFFD."""
        return self._release(final=True)

    def _release(self, final: bool) -> str:
        text = self._codec.decode(self._ids)
        if text.endswith(REPLACEMENT) and not final:
            return ""
        piece = text[len(self._codec.decode(self._ids[: self._given])) :]
        if piece:  # ids without text (special ones) are no context: the ones before them stay
            del self._ids[: self._given]
        self._given = len(self._ids)
        return piece


def _load(path: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TokenizerError(
            f"text needs the tokenizers package ({error}): pip install tokenizers, or pass ids"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise TokenizerError(f"{path}: not a tokenizer.json ({error}); re-copy or re-compile the bundle") from None
