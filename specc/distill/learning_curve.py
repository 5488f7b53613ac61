"""The learning curve as an SVG: acceptance of the first drafted token against tokens and minutes of training."""

from collections.abc import Sequence

from specc.distill.measurements import CurvePoint
from specc.render import render

_WIDTH, _HEIGHT, _MARGIN = 320, 200, 44
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
_TICKS = 4


def learning_curve_svg(curve: Sequence[CurvePoint]) -> str:
    """Two panels side by side, T=0 and T=1 in each."""
    panels = [
        _panel(0, "tokens trained on (thousands)", [point.tokens / 1e3 for point in curve], curve),
        _panel(1, "minutes of training", [point.seconds / 60 for point in curve], curve),
    ]
    width = 2 * (_WIDTH + 2 * _MARGIN)
    return render("learning_curve.svg", width=width, height=_HEIGHT + 2 * _MARGIN, panels=panels)


def _panel(number: int, label: str, xs: list[float], curve: Sequence[CurvePoint]) -> dict[str, object]:
    reach = max([*xs, 1e-9])
    left = number * (_WIDTH + 2 * _MARGIN) + _MARGIN

    def line(ys: list[float]) -> str:
        return " ".join(f"{_x(x, reach):.1f},{_y(y):.1f}" for x, y in zip(xs, ys, strict=True))

    return {
        "left": left,
        "top": _MARGIN / 2,
        "width": _WIDTH,
        "height": _HEIGHT,
        "label": label,
        "rows": [(value, _y(value)) for value in _GRID],
        "ticks": [(f"{reach * i / _TICKS:.3g}", _x(reach * i / _TICKS, reach)) for i in range(_TICKS + 1)],
        "greedy": line([point.first_greedy for point in curve]),
        "sampled": line([point.first_sampled for point in curve]),
    }


def _x(value: float, reach: float) -> float:
    return _WIDTH * value / reach


def _y(acceptance: float) -> float:
    return _HEIGHT * (1 - acceptance)
