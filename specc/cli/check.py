"""`specc check`: judges a bundle on this machine."""

from pathlib import Path

import click

from specc.cli.failures import DONE, FAILED
from specc.cli.flags import debug_option, json_option
from specc.cli.output import print_json, print_table
from specc.cli.progress_bars import shown_progress

_VERDICTS = {True: "pass", False: "FAIL", None: "n/a"}


@click.command("check", short_help="Prove a bundle on this machine.")
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
@debug_option
def check_command(bundle: Path, as_json: bool) -> int:
    """Prove BUNDLE on this machine.

    Hashes, logits against the core graph, row independence, speculative against plain decoding, and the sampled law.
    Takes a minute or two for a small model. Ends with 1 if anything fails.
    """
    from specc.check import check_bundle

    with shown_progress() as progress:
        report = check_bundle(bundle, progress)
    if as_json:
        print_json({"passed": report.passed, "rows": [vars(row) for row in report.rows]})
    else:
        print_table(("check", "", "detail"), [(row.name, _VERDICTS[row.passed], row.detail) for row in report.rows])
    return DONE if report.passed else FAILED
