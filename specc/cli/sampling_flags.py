"""The options of a request, as `specc run` takes them: SamplingParams' own names and defaults."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from specc_runtime import SamplingParams

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _biases(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[int, float]:
    """`ID=VALUE` texts as a table; of an id given twice the last counts."""
    biases: dict[int, float] = {}
    for text in values:
        token, _, value = text.partition("=")
        try:
            biases[int(token)] = float(value)
        except ValueError:
            raise click.BadParameter(f"{text!r} is no ID=VALUE, e.g. 42=-5") from None
    return biases


def _all_if_none(_context: click.Context, _parameter: click.Parameter, ids: tuple[int, ...]) -> tuple[int, ...] | None:
    return ids or None


_IDS: dict[str, Any] = {"type": int, "multiple": True, "metavar": "ID"}

_OPTIONS = (
    click.option("--max-new-tokens", type=int, default=256, show_default=True, help="Most tokens to generate."),
    click.option("--min-new-tokens", type=int, default=0, help="Tokens before which the text may not end."),
    click.option("--temperature", type=float, default=0.0, show_default=True, help="0 takes the likeliest token."),
    click.option("--top-k", type=int, default=0, help="Sample from the K likeliest tokens.  [default: all]"),
    click.option(
        "--top-p",
        type=float,
        default=1.0,
        show_default=True,
        help="Sample from the likeliest tokens that hold P of the mass.",
    ),
    click.option(
        "--min-p",
        type=float,
        default=0.0,
        show_default=True,
        help="Drop tokens less than P times as likely as the likeliest.",
    ),
    click.option(
        "--repetition-penalty",
        type=float,
        default=1.0,
        show_default=True,
        help="Above 1 makes repeating less likely, the prompt's tokens too.",
    ),
    click.option(
        "--frequency-penalty",
        type=float,
        default=0.0,
        show_default=True,
        help="Taken off a logit for each time its token was generated.",
    ),
    click.option(
        "--presence-penalty",
        type=float,
        default=0.0,
        show_default=True,
        help="Taken off a logit once its token was generated.",
    ),
    click.option(
        "--logit-bias",
        multiple=True,
        callback=_biases,
        metavar="ID=VALUE",
        help="Add VALUE to a token's logit; may be given again.",
    ),
    click.option(
        "--allowed-token-id",
        "allowed_token_ids",
        callback=_all_if_none,
        **_IDS,
        help="Only this token; may be given again.  [default: all]",
    ),
    click.option("--forbidden-token-id", "forbidden_token_ids", **_IDS, help="Never this token; may be given again."),
    click.option("--stop-token-id", "stop_token_ids", **_IDS, help="End after this token; may be given again."),
    click.option("--stop", "stop_strings", multiple=True, metavar="TEXT", help="End before TEXT; may be given again."),
    click.option("--ignore-eos", is_flag=True, help="Go on after an end-of-text token."),
    click.option("--logprobs", type=int, metavar="K", help="Log-probabilities, and the K likeliest tokens, in --json."),
    click.option("--n", type=int, default=1, show_default=True, help="Texts to generate, one after the other."),
    click.option("--seed", type=int, help="Makes sampling repeatable.  [default: a new one each time]"),
    click.option(
        "--acceptance",
        type=click.Choice(["block", "token"]),
        default="block",
        show_default=True,
        help="How drafts are judged: all at once, which accepts more, or token by token. Both are exact.",
    ),
    click.option(
        "--verify-every",
        type=int,
        metavar="N",
        default=0,
        help="Every N tokens compute the context anew and compare: shows how far rounding drifted.  [default: never]",
    ),
)


def sampling_options(command: Decorated) -> Decorated:
    """Add every sampling option to `command`, in the order they are listed."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def sampling_params(asked: Mapping[str, Any]) -> "SamplingParams":
    """The request out of a command's parameters. Raises specc_runtime's OptionError for a value out of range."""
    from specc_runtime import SamplingParams

    return SamplingParams(**{field.name: asked[field.name] for field in fields(SamplingParams) if field.name in asked})
