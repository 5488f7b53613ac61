"""What the figures say, in plain words."""

from collections.abc import Iterator

from specc.bench.intervals import Ratio
from specc.bench.report import BenchReport


def verdict(report: BenchReport) -> tuple[str, ...]:
    """A line each: does speculation win or lose, where it loses, and whether the tokens are the same."""
    return tuple(_lines(report))


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio with its interval, e.g. "1.31x [1.22, 1.40]"."""
    if ratio is None:
        return "-"
    interval = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}x{interval}"


def _lines(report: BenchReport) -> Iterator[str]:
    speedup = report.overall.speedup
    yield f"Speculation {_outcome(speedup)}: {ratio_text(speedup)} of plain decoding's speed."
    losing = [f"{name} {ratio_text(s.speedup)}" for name, s in report.categories.items() if _loses(s.speedup)]
    if losing and len(report.categories) > 1:
        yield f"It loses on {', '.join(losing)}."
    if report.settings["temperature"] == 0:
        same = report.identity
        yield f"{same.identical} of {same.compared} answers are token for token those of plain decoding."
        if same.first is not None:
            first = same.first
            yield f"The first difference: question {first.question}, turn {first.turn}, token {first.token}."
    if report.skipped:
        yield f"{len(report.skipped)} questions did not fit the context and were left out."


def _outcome(speedup: Ratio | None) -> str:
    if speedup is None:
        return "was not measured (every answer had one token)"
    if _loses(speedup):
        return "loses"
    if speedup.low is not None and speedup.low > 1:
        return "wins"
    return "makes no sure difference"


def _loses(speedup: Ratio | None) -> bool:
    """Whether all of the interval lies below 1; without an interval, the value."""
    return speedup is not None and (speedup.value if speedup.high is None else speedup.high) < 1
