"""Chats in the format a model was trained on: its own jinja2 chat template, run in a sandbox."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import TokenizerInfo


class Message(TypedDict):
    """One turn of a chat. role: "system", "user" or "assistant"."""

    role: str
    content: str


def conversation(bundle: Path, info: TokenizerInfo | None, messages: Sequence[Message]) -> str:
    """The prompt that asks the model of the bundle at `bundle` for the next assistant turn after `messages`.

    Raises TokenizerError if it has no chat template.
    """
    from tokenizers import Tokenizer

    if info is None or info.chat_template is None:
        raise TokenizerError(f"{bundle} has no chat template; run it without --chat")
    tokenizer = Tokenizer.from_file(str(bundle / info.file))
    ids = {"bos_token": info.bos_id, "eos_token": next(iter(info.eos_ids), None), "pad_token": info.pad_id}
    texts = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
    special = {name: token for name, token in texts.items() if token is not None}
    return chat_prompt(info.chat_template, messages, special)


def chat_prompt(template: str, messages: Sequence[Message], special_tokens: dict[str, str]) -> str:
    """The prompt that asks a model with chat `template` for the next assistant turn after `messages`.

    special_tokens: what the template may name, e.g. {"bos_token": "<s>"}; a token that is not given reads as empty.
    Raises TokenizerError when the template is broken or refuses these messages.
    """
    try:
        compiled = _environment().from_string(template)
        return compiled.render(messages=list(messages), add_generation_prompt=True, **special_tokens)
    except TemplateError as error:
        raise TokenizerError(f"the chat template can't be filled: {error}; run without --chat") from error
    except (TypeError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise TokenizerError(
            f"the chat template fails ({type(error).__name__}: {error}); run without --chat"
        ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    """What Hugging Face's templates rely on: trimmed blocks, loop controls, tojson, raise_exception, strftime_now."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
