"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from specc.cli.failures import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """Command lines for the end of a command's help, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def debug_option(command: Decorated) -> Decorated:
    """`--debug`, before or after the command's name."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show the traceback of a failure."
    )(command)


def json_option(command: Decorated) -> Decorated:
    """`--json`: the result as one JSON document on stdout, for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)


def gamma_option(command: Decorated) -> Decorated:
    """`--gamma`: a number, or "auto"."""
    help_text = "Tokens drafted a round; auto chooses what pays, round by round.  [default: the bundle's]"
    return click.option("--gamma", metavar="N|auto", callback=_gamma, help=help_text)(command)


def _gamma(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str | None:
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor auto") from None


def _set_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    settings = context.find_object(Settings)
    if value and settings is not None:
        settings.debug = True
