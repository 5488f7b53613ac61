"""`specc emit`: what a deployment needs around a bundle."""

from pathlib import Path
from typing import Any

import click

from specc.cli.flags import debug_option, examples, json_option
from specc.cli.output import print_json, print_line
from specc.deployment.kinds import known_kinds, load_kind

_PATH = click.Path(path_type=Path)
_OPTIONS = (
    click.argument("bundle", type=_PATH),
    click.option("-o", "--output", required=True, type=_PATH, metavar="DIR", help="Folder to write."),
    click.option("--name", metavar="NAME", help="What the output calls itself.  [default: from the verifier's name]"),
    click.option(
        "--bundle-path",
        metavar="PATH",
        help="Where the bundle lies on the serving host.  [default: a copy in the output]",
    ),
    click.option("--threads", type=int, help="Engine threads.  [default: measured when compiled]"),
    click.option("--fused", is_flag=True, help="Use the bundle's programs that run a whole round in one call."),
    click.option("--force", is_flag=True, help="Replace what an earlier emit wrote there."),
    json_option,
    debug_option,
)


class _Kinds(click.Group):
    """A command for each kind, made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(known_kinds())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in known_kinds() else None


@click.group(
    "emit",
    cls=_Kinds,
    short_help="Write what a deployment needs around a bundle.",
    epilog=examples(*(f"specc emit {load_kind(name).example}" for name in known_kinds())),
)
@debug_option
def emit_command() -> None:
    """Write what a deployment needs around a bundle: rendered files, with the bundle and the runtime where needed."""


def _command(name: str) -> click.Command:
    kind = load_kind(name)

    def call(bundle: Path, output: Path, force: bool, as_json: bool, **asked: Any) -> None:
        from specc.deployment.emitting import emit
        from specc.deployment.records import Asked

        written = emit(name, bundle, output, Asked(**asked), force=force)
        if as_json:
            print_json({"output": str(written.output), "name": written.name, "files": list(written.files)})
            return
        for file in written.files:
            print_line(str(output / file))

    call.__doc__ = f"{kind.summary}\n\n{kind.details}"
    for option in reversed(_OPTIONS):
        call = option(call)
    return click.command(name, short_help=kind.summary, epilog=examples(f"specc emit {kind.example}"))(call)
