"""The tokenizer files of a Hugging Face directory.

tokenizer.json is the tokenizer; tokenizer_config.json and special_tokens_map.json name its special tokens;
chat_template.jinja, or tokenizer_config.json's field, is the chat template; generation_config.json, then config.json,
hold the ids a generation ends at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from specc.checkpoint.json_file import read_json_object, read_text
from specc.checkpoint.tokenizer_json import adds_bos, load_tokenizer, settle_bos
from specc.checkpoint.types import TokenizerFiles
from specc.errors import CheckpointError

_AGAIN = "download or export it again"
_SAVE = "load and save the tokenizer once with transformers' AutoTokenizer to write tokenizer.json"
_OTHER_FORMS = ("tokenizer.model", "spiece.model", "vocab.json", "merges.txt", "vocab.txt", "tekken.json")


def read_tokenizer(directory: Path, config: Mapping[str, Any]) -> TokenizerFiles | None:
    """The directory's tokenizer; None if it holds no tokenizer file at all.

    config: config.json's content. Raises CheckpointError if a file is broken or only older forms are there.
    """
    path = directory / "tokenizer.json"
    if not path.exists():
        if others := [name for name in _OTHER_FORMS if (directory / name).exists()]:
            raise CheckpointError(f"{path}: no such file, only {', '.join(others)}; {_SAVE}")
        return None
    text = read_text(path, _AGAIN)
    tokenizer = load_tokenizer(text, str(path), _AGAIN)
    names = _read_optional(directory / "special_tokens_map.json") | _read_optional(directory / "tokenizer_config.json")
    generation = _read_optional(directory / "generation_config.json")
    by_id = {"generation_config.json": generation, "config.json": config}
    tokens = _SpecialTokens(directory, tokenizer, names, by_id)
    bos_id = tokens.one("bos")
    add_bos = _add_bos(directory, names, tokenizer, bos_id)
    changed = settle_bos(tokenizer, bos_id, add_bos)
    return TokenizerFiles(
        json=tokenizer.to_str() if changed else text,
        chat_template=_chat_template(directory, names),
        bos_id=bos_id,
        eos_ids=tokens.eos(),
        pad_id=tokens.one("pad"),
        add_bos=add_bos,
    )


@dataclass(frozen=True)
class _SpecialTokens:
    """Where a directory states its special tokens: by string in `names`, by id in the content of `by_id`'s files."""

    directory: Path
    tokenizer: Tokenizer
    names: Mapping[str, Any]
    by_id: Mapping[str, Mapping[str, Any]]

    def one(self, kind: str) -> int | None:
        """The id of the tokenizer's own `bos` or `pad` token, else of the one the generation uses."""
        named = self._named(f"{kind}_token")
        if named is not None:
            return named
        return next((ids[0] for ids in self._listed(f"{kind}_token_id") if ids), None)

    def eos(self) -> tuple[int, ...]:
        """All ids a generation ends at; those it was configured with come before the tokenizer's own."""
        listed = next((ids for ids in self._listed("eos_token_id") if ids), None)
        if listed is not None:
            return listed
        named = self._named("eos_token")
        return () if named is None else (named,)

    def _named(self, field: str) -> int | None:
        token = self.names.get(field)
        content = token.get("content") if isinstance(token, dict) else token
        if content is None:
            return None
        index = self.tokenizer.token_to_id(content) if isinstance(content, str) else None
        if index is None:
            path = self.directory / "tokenizer_config.json"
            raise CheckpointError(f"{path}: {field} {content!r:.60} has no id in tokenizer.json; {_SAVE}")
        return index

    def _listed(self, field: str) -> list[tuple[int, ...]]:
        return [_ids(content.get(field), f"{self.directory / name}: {field}") for name, content in self.by_id.items()]


def _ids(value: Any, where: str) -> tuple[int, ...]:
    """Ids of a field that holds one, a list of them, or null; -1 is some exporters' null."""
    ids = value if isinstance(value, list) else [value]
    if not all(item is None or (type(item) is int and item >= -1) for item in ids):
        raise CheckpointError(f"{where} is {value!r:.60}; expected a token id or a list of them")
    return tuple(dict.fromkeys(item for item in ids if item is not None and item >= 0))


def _add_bos(directory: Path, names: Mapping[str, Any], tokenizer: Tokenizer, bos_id: int | None) -> bool:
    """An explicit add_bos_token wins over tokenizer.json's post-processor, as it does in transformers."""
    stated = names.get("add_bos_token")
    if stated is None:
        return adds_bos(tokenizer, bos_id)
    if not isinstance(stated, bool):
        path = directory / "tokenizer_config.json"
        raise CheckpointError(f"{path}: add_bos_token is {stated!r:.60}; expected true or false")
    if stated and bos_id is not None and tokenizer.id_to_token(bos_id) is None:
        raise CheckpointError(
            f"{directory / 'config.json'}: bos_token_id {bos_id} has no token in tokenizer.json; {_SAVE}"
        )
    return stated and bos_id is not None


def _chat_template(directory: Path, names: Mapping[str, Any]) -> str | None:
    path = directory / "chat_template.jinja"
    if path.exists():
        return read_text(path, _AGAIN)
    stated = names.get("chat_template")
    if isinstance(stated, list):  # several, by name
        by_name = {item.get("name"): item.get("template") for item in stated if isinstance(item, dict)}
        stated = by_name.get("default")
    if stated is None or isinstance(stated, str):
        return stated
    path = directory / "tokenizer_config.json"
    raise CheckpointError(f"{path}: chat_template is of type {type(stated).__name__}; expected text, or named texts")


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json_object(path, _AGAIN) if path.exists() else {}
