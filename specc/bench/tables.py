"""A report as tables of text: the terminal and the page show the same."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from specc.bench.report import BenchReport
from specc.bench.summary import Speed, Summary
from specc.bench.verdict import ratio_text
from specc.render import byte_count

POSITIONS = 6  # of a draft whose acceptance gets a column
_NONE = "-"


@dataclass(frozen=True)
class TextTable:
    """A table ready to print. Its first column is the row's name, the others are figures."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(report: BenchReport) -> Iterator[TextTable]:
    """All tables of a report, in order; those without rows are left out."""
    groups = {**report.categories, "all": report.overall}
    yield _speeds(groups)
    yield _rounds(groups)
    if len(report.turns) > 1:
        yield _turns(report.turns)
    if report.costs is not None:
        yield _costs(report)
    if report.peers:
        yield _peers(report)


def _speeds(groups: Mapping[str, Summary]) -> TextTable:
    headers = ("category", "answers", "speed-up, 95 %", "predicted", "tokens/s", "plain", "first token", "plain")
    rows = tuple(
        (
            name,
            str(s.trials),
            ratio_text(s.speedup),
            _times(s.predicted),
            *_two(s, lambda speed: _number(speed.tokens_per_s, 1)),
            *_two(s, lambda speed: _ms(speed.first_token_s)),
        )
        for name, s in groups.items()
    )
    return TextTable("Decoding speed, and what measured costs predict for the same rounds", headers, rows)


def _rounds(groups: Mapping[str, Summary]) -> TextTable:
    deepest = min(POSITIONS, max(len(s.acceptance) for s in groups.values()))
    accepted = tuple(f"accepted {position + 1}" for position in range(deepest))
    headers = ("category", *accepted, "tokens/round", "drafted", "draft time", "host time", "p50", "p99", "best gamma")
    rows = tuple(
        (
            name,
            *(_share(s.acceptance[i] if i < len(s.acceptance) else None) for i in range(deepest)),
            _number(s.tokens_per_round, 2),
            _number(s.gamma, 2),
            _share(s.draft_share),
            _share(s.host_share),
            _ms(s.speculative.round_p50_s),
            _ms(s.speculative.round_p99_s),
            _NONE if s.best_gamma is None else f"{s.best_gamma} ({_times(s.best_predicted)})",
        )
        for name, s in groups.items()
    )
    return TextTable("Rounds: acceptance by position, length, time, and the fixed gamma this would suit", headers, rows)


def _turns(turns: Mapping[int, Summary]) -> TextTable:
    headers = ("turn", "answers", "speed-up, 95 %", "first token", "plain", "prompt tokens prefilled", "plain")
    rows = tuple(
        (
            str(turn),
            str(s.trials),
            ratio_text(s.speedup),
            *_two(s, lambda speed: _ms(speed.first_token_s)),
            *_two(s, lambda speed: _number(speed.prefilled, 0)),
        )
        for turn, s in turns.items()
    )
    return TextTable("First and later turns: what is cached is not prefilled again", headers, rows)


def _costs(report: BenchReport) -> TextTable:
    costs = report.costs
    if costs is None:
        raise ValueError("a report without costs has no table of them")
    headers = ("drafted", "verify", "draft", "round", "break-even tokens/round", "if all were accepted")
    rows = tuple(
        (str(drafted), _ms(verify), _ms(draft), _ms(whole), f"{cost:.2f}", f"{(drafted + 1) / cost:.2f}x")
        for drafted, (verify, draft, whole, cost) in enumerate(
            zip(costs.verify_s, costs.draft_s, costs.round_s, costs.break_even, strict=True)
        )
    )
    return TextTable("What rounds cost here", headers, rows)


def _peers(report: BenchReport) -> TextTable:
    headers = ("engine", "precision", "tokens/s", "first token", "specc is faster", "specc, plain", "same", "memory")
    ours = [
        ("specc, speculative", _precision(report), *_speed(report.overall.speculative), "", "", "", _memory(report)),
        ("specc, plain", _precision(report), *_speed(report.overall.plain), "", "", "", _memory(report)),
    ]
    theirs = [
        (
            f"{peer.name} {peer.version}, {peer.mode}",
            peer.precision,
            *_speed(peer.speed),
            ratio_text(peer.speculative),
            ratio_text(peer.plain),
            f"{peer.identity.identical}/{peer.identity.compared}",
            byte_count(peer.peak_bytes),
        )
        for peer in report.peers
    ]
    return TextTable("Other engines on the same prompts", headers, (*ours, *theirs))


def _precision(report: BenchReport) -> str:
    return str(report.bundle["precision"])


def _memory(report: BenchReport) -> str:
    return byte_count(report.peak_bytes)


def _speed(speed: Speed) -> tuple[str, str]:
    return _number(speed.tokens_per_s, 1), _ms(speed.first_token_s)


def _two(summary: Summary, text: Callable[[Speed], str]) -> tuple[str, str]:
    return text(summary.speculative), text(summary.plain)


def _ms(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{seconds * 1e3:.1f} ms"


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _times(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}x"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1%}"
