"""All checks of a bundle, in order."""

from collections.abc import Callable, Iterator
from pathlib import Path

from specc.check.core_agreement import check_core_agreement
from specc.check.greedy import check_greedy
from specc.check.integrity import check_integrity
from specc.check.law import check_law
from specc.check.row_independence import check_row_independence
from specc.check.twin import check_twin
from specc.progress import Progress, Silent
from specc.reports import CheckReport, CheckRow
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.errors import SpeccError

_CHECKS: dict[str, Callable[[Bundle], Iterator[CheckRow]]] = {
    "tiny twin": check_twin,
    "programs against core graphs": check_core_agreement,
    "row independence": check_row_independence,
    "greedy": check_greedy,
    "sampled law": check_law,
}


def check_bundle(path: Path, progress: Progress | None = None) -> CheckReport:
    """Judge the bundle in folder `path`.

    Raises BundleError when it can't be opened at all; anything wrong beyond that is a failed row.
    """
    progress = progress or Silent()
    with progress.step("hashing files"):
        rows = [check_integrity(path)]
    bundle = open_bundle(path)
    for name, check in _CHECKS.items():
        with progress.step(name):
            rows += _judged(name, check, bundle)
    return CheckReport(tuple(rows))


def _judged(name: str, check: Callable[[Bundle], Iterator[CheckRow]], bundle: Bundle) -> list[CheckRow]:
    try:
        return list(check(bundle))
    except SpeccError as error:
        return [CheckRow(name, False, str(error))]
