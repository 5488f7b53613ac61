"""Shipped templates (templates/*.j2) filled with values computed in Python; a value that is missing is an error."""

import json
import shlex
from functools import cache

from jinja2 import Environment, FunctionLoader, StrictUndefined

from specc.resources import read_data


def render(name: str, **values: object) -> str:
    """The text of template `name` (`NAME.j2` under templates/) with `values`.

    Raises ResourceError for a template that is not shipped, jinja2.UndefinedError for a value not given.
    """
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: read_data("templates", f"{name}.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: name is not None and name.endswith(".html"),  # the others are Markdown and scripts
    )
    environment.filters["cell"] = _table_cell
    environment.filters["python"] = _python_literal
    environment.filters["shell"] = shlex.quote
    return environment


def _python_literal(value: object) -> str:
    """`value` as Python source; text in double quotes, as formatters want it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _table_cell(value: object) -> str:
    """`value` as one cell of a Markdown table: names come from checkpoints and may hold anything."""
    return " ".join(str(value).replace("|", "\\|").split())
