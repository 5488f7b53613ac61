import io

import pytest

from specc.cli.progress_bars import shown_progress
from specc.progress import Silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_steps() -> None:
    with shown_progress() as progress:
        with progress.step("reading", total=4) as step:
            step.advance(3)
            step.advance()
        with pytest.raises(ZeroDivisionError), progress.step("lowering"):
            raise ZeroDivisionError


def test_lines_when_stderr_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    run_steps()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("reading: took ")
    assert second.startswith("lowering: failed after ")


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    run_steps()
    screen = stream.getvalue()

    def mark(title: str) -> str:
        return screen[: screen.rindex(title)][-8:]

    assert "✓" in mark("reading"), "a finished step is ticked off"
    assert "✓" not in mark("lowering"), "a failed one is not"


def test_silent_progress_takes_the_same_steps() -> None:
    with Silent().step("anything", total=2) as step:
        step.advance()
