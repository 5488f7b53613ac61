"""All checks of a bundle, in order."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from specc.check.core_agreement import check_core_agreement
from specc.check.greedy import check_greedy
from specc.check.integrity import check_integrity
from specc.check.law import check_law
from specc.check.rounds import check_rounds
from specc.check.row_independence import check_row_independence
from specc.check.subject import Subject
from specc.check.twin import check_twin
from specc.progress import Progress, Silent
from specc.reports import CheckReport, CheckRow
from specc_runtime.bundle import open_bundle
from specc_runtime.errors import SpeccError

_CHECKS: dict[str, Callable[[Subject, Progress], Iterable[CheckRow]]] = {
    "programs against core graphs": check_core_agreement,
    "row independence": check_row_independence,
    "greedy": check_greedy,
    "fused rounds": check_rounds,
    "sampled law": check_law,
}


def check_bundle(path: Path, progress: Progress | None = None) -> CheckReport:
    """Judge the bundle in folder `path`; its programs are loaded once.

    Raises BundleError when it can't be opened at all; anything wrong beyond that is a failed row.
    """
    progress = progress or Silent()
    with progress.step("hashing files"):
        rows = [check_integrity(path)]
    bundle = open_bundle(path)
    rows += _judged("tiny twin", partial(check_twin, bundle, progress))
    try:
        with progress.step("loading programs"):
            subject = Subject.load(bundle)
    except SpeccError as error:
        return CheckReport((*rows, CheckRow("programs load", False, str(error))))
    for name, check in _CHECKS.items():
        rows += _judged(name, partial(check, subject, progress))
    return CheckReport(tuple(rows))


def _judged(name: str, check: Callable[[], Iterable[CheckRow]]) -> list[CheckRow]:
    try:
        return list(check())
    except SpeccError as error:
        return [CheckRow(name, False, str(error))]
