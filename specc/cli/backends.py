"""`specc backends`: what each backend has, and where it was built and run."""

import sys
from typing import Any

import click

from specc.cli.flags import debug_option, examples, json_option
from specc.cli.output import print_json, print_table

_HEADERS = ("backend", "programs", "weights", "caches", "compiles for", "built on", "run on", "checked on")


@click.command(
    "backends",
    short_help="Compare the backends.",
    epilog=examples("specc backends", "specc backends --markdown > docs/backends.md"),
)
@click.option("--markdown", is_flag=True, help="Print docs/backends.md, with the command behind every statement.")
@json_option
@debug_option
def backends_command(markdown: bool, as_json: bool) -> None:
    """Show what each backend has: programs, dtypes of weights and caches, targets, and where it was built and run.

    Checked: something else ran its programs, or stood in for its engine.
    """
    from specc.backends import known_backends, load_backend
    from specc.backends.page import backend_facts, backends_page
    from specc.targets import known_targets, load_target

    if markdown and as_json:
        raise click.UsageError("--markdown and --json are two forms of the same; keep one")
    if markdown:
        sys.stdout.write(backends_page())
        return
    targets = [load_target(name) for name in known_targets()]
    facts = [backend_facts(load_backend(name), targets) for name in known_backends()]
    if as_json:
        print_json(facts)
    else:
        print_table(_HEADERS, map(_row, facts))


def _row(facts: dict[str, Any]) -> list[str]:
    targets = [target["name"] for target in facts["targets"]]
    places = [dict.fromkeys(item["where"] for item in facts[did]) for did in ("built", "run", "checked")]
    cells = (facts["programs"], facts["weights"], facts["caches"], targets, *places)
    return [facts["name"], *(", ".join(cell) for cell in cells)]
