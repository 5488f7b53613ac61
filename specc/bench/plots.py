"""Plots of a report as shapes on a canvas; the page's template draws them as inline SVG."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from specc.bench.costs import Costs
from specc.bench.report import BenchReport
from specc.bench.summary import Summary
from specc_runtime.speculation import expected_tokens

WIDTH, ROW = 720.0, 26.0
LEFT, RIGHT, TOP, BOTTOM = 190.0, 60.0, 14.0, 42.0  # margins
HEIGHT = 320.0  # of a plot with a vertical axis
TICKS = 6


@dataclass(frozen=True)
class Line:
    """A polyline through (x, y) points. style: a CSS class of the page."""

    points: tuple[tuple[float, float], ...]
    style: str


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    style: str


@dataclass(frozen=True)
class Dot:
    """A circle; title is shown when it is pointed at."""

    x: float
    y: float
    style: str
    title: str


@dataclass(frozen=True)
class Label:
    """A text; anchor as SVG has it: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    style: str = "label"


@dataclass
class Plot:
    """Shapes on a canvas of `width` x `height`, with what a reader must know in `caption`."""

    title: str
    caption: str
    height: float
    width: float = WIDTH
    lines: list[Line] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def plots(report: BenchReport) -> Iterator[Plot]:
    """The plots a report has data for."""
    groups = {**report.categories, "all": report.overall}
    if any(s.speedup is not None for s in groups.values()):
        yield _speedups(groups)
    if report.overall.acceptance:
        yield _acceptance(groups)
        if report.costs is not None:
            yield _break_even(report.overall, report.costs)
    if report.peers:
        yield _engines(report)


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """About `count` round numbers that cover `low` ... `high`."""
    rough = (high - low) / max(1, count - 1) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * k, 12) for k in range(first, last + 1)]


def _speedups(groups: Mapping[str, Summary]) -> Plot:
    """A row a category: the interval as a bar, the measured value in it, the predicted one as a ring."""
    plot = Plot(
        "Speed-up over plain decoding",
        "Measured, with its 95 % interval (bar), and as measured costs predict for the same rounds (ring). Left of the "
        "dashed line speculation loses.",
        height=TOP + ROW * len(groups) + BOTTOM,
    )
    known = {name: s.speedup for name, s in groups.items()}
    across = _x_axis(plot, _speedup_ticks(groups), "x plain")
    plot.lines.append(Line(((across(1), TOP), (across(1), plot.height - BOTTOM)), "even"))
    for row, (name, summary) in enumerate(groups.items()):
        y = TOP + ROW * (row + 0.5)
        plot.labels.append(Label(LEFT - 10, y + 4, name, "end", "total" if name == "all" else "label"))
        ratio = known[name]
        if ratio is None:
            continue
        if ratio.low is not None and ratio.high is not None:
            low, high = max(across(ratio.low), LEFT), min(across(ratio.high), WIDTH - RIGHT)
            plot.boxes.append(Box(low, y - 4, high - low, 8, "interval"))
        if summary.predicted is not None:
            plot.dots.append(Dot(across(summary.predicted), y, "ring", f"{name}: {summary.predicted:.2f}x predicted"))
        plot.dots.append(Dot(across(ratio.value), y, "value", f"{name}: {ratio.value:.2f}x measured"))
    return plot


def _speedup_ticks(groups: Mapping[str, Summary]) -> list[float]:
    """An axis that holds every value; of an interval much wider than they are, it shows a part."""
    values = [1.0, *(s.predicted for s in groups.values() if s.predicted is not None)]
    values += [s.speedup.value for s in groups.values() if s.speedup is not None]
    room = 0.5 * (max(values) - min(values)) + 0.1
    low, high = min(values) - room, max(values) + room
    ends = [v for s in groups.values() if s.speedup for v in (s.speedup.low, s.speedup.high) if v is not None]
    return ticks(max(low, min([*values, *ends]), 0.0), min(high, max([*values, *ends])))


def _acceptance(groups: Mapping[str, Summary]) -> Plot:
    plot = Plot(
        "Acceptance by position",
        "Share of drafts of which at least so many tokens were accepted: all prompts (thick) and each category (thin).",
        height=HEIGHT,
    )
    deepest = max(len(s.acceptance) for s in groups.values())
    down = _y_axis(plot, ticks(0.0, 1.0), lambda v: f"{v:.0%}")
    across = _positions(plot, range(1, deepest + 1), "position in the draft")
    for name, summary in groups.items():
        points = tuple((across(i), down(share)) for i, share in enumerate(summary.acceptance, 1))
        plot.lines.append(Line(points, "main" if name == "all" else "thin"))
        plot.dots += [
            Dot(x, y, "value" if name == "all" else "point", f"{name}, position {i}: {share:.1%}")
            for i, ((x, y), share) in enumerate(zip(points, summary.acceptance, strict=True), 1)
        ]
    return plot


def _break_even(overall: Summary, costs: Costs) -> Plot:
    plot = Plot(
        "Tokens a round: emitted, and needed",
        "Drafting pays where the emitted tokens (thick) are above what the round costs in plain steps (dashed). The "
        "thin line is a drafter that is always right.",
        height=HEIGHT,
    )
    cost = costs.break_even
    emitted = expected_tokens(overall.acceptance)[: len(cost)]
    perfect = [float(drafted + 1) for drafted in range(len(cost))]
    down = _y_axis(plot, ticks(0.0, max(*cost, *emitted, min(perfect[-1], 2 * max(*cost, *emitted)))), _plain)
    across = _positions(plot, range(len(cost)), "drafted tokens")
    top = down(0) - (down(0) - TOP)
    for values, style in ((perfect, "thin"), (cost, "even"), (emitted, "main")):
        points = tuple((across(i), down(v)) for i, v in enumerate(values) if down(v) >= top - 0.5)
        plot.lines.append(Line(points, style))
    plot.dots += [Dot(across(i), down(v), "value", f"{i} drafted: {v:.2f} emitted") for i, v in enumerate(emitted)]
    plot.dots += [Dot(across(i), down(v), "point", f"{i} drafted: costs {v:.2f} steps") for i, v in enumerate(cost)]
    return plot


def _engines(report: BenchReport) -> Plot:
    bars = [("specc, speculative", report.overall.speculative), ("specc, plain", report.overall.plain)]
    bars += [(f"{peer.name}, {peer.mode}", peer.speed) for peer in report.peers]
    plot = Plot(
        "Engines on the same prompts",
        "Tokens a second after the first, each at its nearest precision (see the table).",
        height=TOP + ROW * len(bars) + BOTTOM,
    )
    across = _x_axis(plot, ticks(0.0, max(speed.tokens_per_s or 0.0 for _, speed in bars)), "tokens/s")
    for row, (name, speed) in enumerate(bars):
        y, value = TOP + ROW * (row + 0.5), speed.tokens_per_s or 0.0
        plot.labels.append(Label(LEFT - 10, y + 4, name, "end"))
        plot.boxes.append(Box(LEFT, y - 8, across(value) - LEFT, 16, "ours" if name.startswith("specc") else "bar"))
        plot.labels.append(Label(across(value) + 6, y + 4, f"{value:.1f}"))
    return plot


def _x_axis(plot: Plot, values: Sequence[float], unit: str) -> Callable[[float], float]:
    """Grid lines and their numbers below; what gives the x of a value."""
    low, high, bottom = values[0], values[-1], plot.height - BOTTOM

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    for value in values:
        plot.lines.append(Line(((across(value), TOP), (across(value), bottom)), "grid"))
        plot.labels.append(Label(across(value), bottom + 18, _plain(value), "middle"))
    plot.labels.append(Label(WIDTH - RIGHT, bottom + 34, unit, "end"))
    return across


def _y_axis(plot: Plot, values: Sequence[float], text: Callable[[float], str]) -> Callable[[float], float]:
    low, high, bottom = values[0], values[-1], plot.height - BOTTOM

    def down(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - TOP)

    for value in values:
        plot.lines.append(Line(((LEFT, down(value)), (WIDTH - RIGHT, down(value))), "grid"))
        plot.labels.append(Label(LEFT - 10, down(value) + 4, text(value), "end"))
    return down


def _positions(plot: Plot, numbers: Sequence[int], title: str) -> Callable[[float], float]:
    """Whole numbers along the bottom; what gives the x of one."""
    low, high = numbers[0], max(numbers[-1], numbers[0] + 1)

    def across(value: float) -> float:
        return LEFT + 20 + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT - 40)

    for number in numbers:
        plot.labels.append(Label(across(number), plot.height - BOTTOM + 18, str(number), "middle"))
    plot.labels.append(Label(WIDTH - RIGHT, plot.height - BOTTOM + 34, title, "end"))
    return across


def _plain(value: float) -> str:
    return f"{value:g}"
