import json
import re
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

import pytest

from specc.bench.page import page
from specc.bench.plots import HEIGHT, LEFT, RIGHT, TOP, WIDTH, plots, ticks
from specc.bench.report import document
from specc.bench.summary import Summary
from specc.bench.tables import tables
from specc.bench.verdict import verdict
from tests.support.bench_reports import report, trial

DOCS = Path(__file__).parents[2] / "docs" / "bench.md"
VOID = {"meta"}


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects those that were opened and what they point to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    assert parsed.open == []
    return parsed


def test_document_is_json_and_every_key_is_described() -> None:
    made = report()
    written = json.loads(json.dumps(document(made, verdict(made))))
    assert written["schema"] == 1
    assert written["overall"]["speedup"]["pairs"] == 8
    assert written["costs"]["break_even"] == pytest.approx([1, 1.2, 1.4])
    assert written["trials"][0]["sides"]["plain"]["tokens"] == 12
    described = DOCS.read_text(encoding="utf-8")
    keys = {
        *written,
        *written["costs"],
        *written["peers"][0],
        *written["trials"][0],
        *(f.name for f in fields(Summary)),
    }
    missing = [key for key in sorted(keys) if f"`{key}`" not in described]
    assert missing == []


def test_page_is_well_formed_and_needs_nothing_else() -> None:
    made = report()
    text = page(made, verdict(made))
    parsed = outline(text)
    assert parsed.links == []
    assert "script" not in parsed.tags
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?://\S+", text) == []
    assert parsed.tags.count("svg") == 4
    assert parsed.tags.count("table") == 1 + len(list(tables(made)))


def test_names_are_escaped() -> None:
    made = report()
    text = page(made, verdict(made))
    assert "summaries &amp; &lt;lists&gt;" in text
    assert "<lists>" not in text
    assert "Tiny &lt;Llama&gt;" in text


def test_page_says_first_who_wins() -> None:
    made = report()
    text = page(made, verdict(made))
    assert text.index(verdict(made)[0].replace("'", "&#39;")) < text.index("<svg")


@pytest.mark.parametrize("name", ["no peers", "no costs", "single tokens"])
def test_page_of_a_poorer_report(name: str) -> None:
    made = {
        "no peers": lambda: report(peers=False),
        "no costs": lambda: report(costs=None),
        "single tokens": lambda: report([trial("1", "qa", []), trial("2", "qa", [])], peers=False),
    }[name]()
    parsed = outline(page(made, verdict(made)))
    assert parsed.tags.count("svg") == {"no peers": 3, "no costs": 3, "single tokens": 0}[name]


def test_every_shape_lies_on_its_canvas() -> None:
    for plot in plots(report()):
        points = [point for line in plot.lines for point in line.points] + [(dot.x, dot.y) for dot in plot.dots]
        points += [(box.x, box.y) for box in plot.boxes]
        points += [(box.x + box.width, box.y + box.height) for box in plot.boxes]
        for x, y in points:
            assert LEFT - 1e-6 <= x <= WIDTH - RIGHT + 1e-6, plot.title
            assert TOP - 1e-6 <= y <= plot.height, plot.title
        assert all(box.width >= 0 for box in plot.boxes)


def test_speedup_plot_puts_values_where_they_belong() -> None:
    plot = next(plots(report()))
    assert plot.title == "Speed-up over plain decoding"
    (even,) = (line.points[0][0] for line in plot.lines if line.style == "even")
    values = [dot.x for dot in plot.dots if dot.style == "value"]
    assert values[0] > even > values[1], "the first category gains, the second loses"


def test_a_wide_interval_does_not_squeeze_the_others() -> None:
    trials = [trial(str(i), "qa", [2, 2], slow=1 + 3 * (i == 0)) for i in range(3)]
    plot = next(plots(report(trials)))
    (even,) = (line.points[0][0] for line in plot.lines if line.style == "even")
    (value, _) = (dot.x for dot in plot.dots if dot.style == "value")
    assert abs(value - even) > 40


def test_ticks_are_round_and_cover_the_range() -> None:
    assert ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(0.83, 2.04)[0] <= 0.83
    assert ticks(0.83, 2.04)[-1] >= 2.04
    assert ticks(0.0, 0.0) == [0.0] or len(ticks(0.0, 0.0)) >= 1
    assert HEIGHT > TOP


def test_tables_have_a_row_a_category_and_one_for_all() -> None:
    speeds, rounds, turns, costs, peers = tables(report())
    assert [row[0] for row in speeds.rows] == ["summaries & <lists>", "maths", "all"]
    assert [row[0] for row in rounds.rows] == ["summaries & <lists>", "maths", "all"]
    assert [row[0] for row in turns.rows] == ["1", "2"]
    assert [row[0] for row in costs.rows] == ["0", "1", "2"]
    assert [row[0] for row in peers.rows] == ["specc, speculative", "specc, plain", "engine 1.2, plain"]
    for table in (speeds, rounds, turns, costs, peers):
        assert {len(row) for row in table.rows} == {len(table.headers)}


def test_figures_in_tables() -> None:
    _, rounds, _, costs, peers = tables(report())
    assert costs.rows[2] == ("2", "12.0 ms", "1.6 ms", "14.0 ms", "1.40", "2.14x")
    assert rounds.rows[1][1:3] == ("26.7%", "0.0%")
    assert peers.rows[2][1] == "Q8_0"
    assert peers.rows[2][6:] == ("8/8", "300.0 MiB")
