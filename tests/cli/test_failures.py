import errno
import sys

import click
import pytest

from specc.cli.failures import DONE, FAILED, USAGE, Settings, describe, exit_code
from specc.errors import CheckpointError, OptionError
from specc_runtime.errors import ManifestError
from specc_runtime.errors import OptionError as RequestOptionError


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (CheckpointError("m.gguf: truncated"), "m.gguf: truncated", FAILED),
        (ManifestError("manifest.json: no"), "manifest.json: no", FAILED),
        (OptionError("gamma: 0"), "gamma: 0", USAGE),
        (RequestOptionError("temperature is -1"), "temperature is -1", USAGE),
        (click.UsageError("no prompt"), "no prompt (see `specc --help`)", USAGE),
        (click.ClickException("odd"), "odd", FAILED),
        (click.Abort(), "interrupted; nothing was changed", FAILED),
        (KeyboardInterrupt(), "interrupted; nothing was changed", FAILED),
        (OSError(errno.ENOSPC, "No space left on device", "out/w.bin"), "out/w.bin: No space left on device", FAILED),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device", FAILED),
        (MemoryError(), "out of memory; close other programs or use a smaller model or context", FAILED),
        (
            ZeroDivisionError("division by zero\nmore"),
            "unexpected ZeroDivisionError: division by zero; re-run with --debug for the traceback",
            FAILED,
        ),
    ],
)
def test_each_failure_has_its_line_and_code(error: BaseException, line: str, code: int) -> None:
    assert describe(error) == (line, code)


def test_message_of_several_lines_becomes_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: fail(CheckpointError("first\n  second")), Settings()) == FAILED
    assert capsys.readouterr().err == "specc: error: first second\n"


def test_traceback_only_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(lambda: fail(CheckpointError("broken")), Settings(debug=True))
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("specc: error: broken\n")


@pytest.mark.parametrize(("returned", "code"), [(None, DONE), (0, 0), (1, 1), ("text", DONE)])
def test_what_a_command_returns_is_its_code(returned: object, code: int) -> None:
    assert exit_code(lambda: returned, Settings()) == code


def test_exit_from_inside_passes() -> None:
    with pytest.raises(SystemExit):
        exit_code(lambda: sys.exit(3), Settings())
