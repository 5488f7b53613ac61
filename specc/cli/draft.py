"""`specc draft`: makes drafters."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specc.cli.flags import debug_option, examples, json_option
from specc.cli.output import print_json, print_line, print_table
from specc.cli.progress_bars import shown_progress
from specc.distill.options import ARCHITECTURES, DEFAULT_HEAD, DEFAULT_MINUTES, DEVICES, DistillOptions
from specc.errors import OptionError

if TYPE_CHECKING:
    from specc.distill.report import DistillReport

_PATH = click.Path(path_type=Path)


@click.group("draft", short_help="Make drafters.")
def draft_command() -> None:
    """Make drafters for a verifier."""


@draft_command.command(
    "distill",
    short_help="Train a drafter from a verifier alone.",
    epilog=examples(
        "specc draft distill model.gguf -o out/drafter --minutes 60",
        "specc compile model.gguf --draft out/drafter --gamma 2,4 -o out/model",
    ),
)
@click.argument("verifier")
@click.option("-o", "--output", required=True, type=_PATH, help="Folder the drafter is written to.")
@click.option(
    "--minutes", type=float, default=DEFAULT_MINUTES, show_default=True, help="Wall time of text and training together."
)
@click.option(
    "--architecture",
    default=ARCHITECTURES[0],
    show_default=True,
    metavar="|".join(ARCHITECTURES),
    help="feature reads the verifier's hidden states (EAGLE-3); decoder is a small model of its own.",
)
@click.option("--head", type=int, default=DEFAULT_HEAD, show_default=True, help="Tokens the drafter can propose.")
@click.option("--text", type=_PATH, multiple=True, metavar="FILE", help="Text to train on as well; may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the text and the training order.")
@click.option(
    "--device", default=DEVICES[0], show_default=True, metavar="|".join(DEVICES), help="Where torch computes."
)
@click.option("--threads", type=int, help="Threads of torch.  [default: torch's]")
@json_option
@debug_option
def distill_command(as_json: bool, **asked: Any) -> None:
    """Train a drafter that shares VERIFIER's vocabulary, embedding and head.

    The verifier makes its own training text. Text and state are kept in OUTPUT.work: the same command goes on after a
    kill, and with more --minutes trains longer. Needs torch: pip install '.[distill]' in specc's sources.
    """
    options = DistillOptions(**asked)
    if find_spec("torch") is None:
        raise OptionError(
            "draft distill trains with torch, which is not installed; pip install '.[distill]' in specc's sources"
        )
    from specc.distill.distilling import distill

    with shown_progress() as progress:
        report = distill(options, progress)
    if as_json:
        print_json({"output": str(report.output), **report.as_json()})
    else:
        _print_report(report)


def _print_report(report: "DistillReport") -> None:
    from specc.distill.report import GAMMAS

    rows = []
    for name, measured in (("T=0", report.greedy), ("T=1", report.sampled)):
        rows.append((f"acceptance, {name}", *(f"{value:.3f}" for value in measured.per_position)))
        rows.append((f"tokens a round, {name}", *(f"{measured.tokens_per_round(gamma):.2f}" for gamma in GAMMAS)))
    headers = ("drafted tokens", *map(str, GAMMAS))
    print_table(headers, rows, right=headers[1:])
    facts = report.facts
    print_line(f"wrote {report.output}: {facts['weights_bytes']:,} bytes, sha256 {facts['weights_sha256']}")
