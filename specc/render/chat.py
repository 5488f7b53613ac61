"""Chats in the format a model was trained on: its own jinja2 chat template, run in a sandbox."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn, TypedDict

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specc_runtime.errors import TokenizerError


class Message(TypedDict):
    """One turn of a chat. role: "system", "user" or "assistant"."""

    role: str
    content: str


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
