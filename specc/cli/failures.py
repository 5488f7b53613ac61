"""How a command ends: its exit code and, when it failed, the one line that says why."""

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import click

from specc.errors import OptionError as CompileOptionError
from specc_runtime.errors import OptionError as RequestOptionError
from specc_runtime.errors import SpeccError

DONE, FAILED, USAGE = 0, 1, 2


@dataclass
class Settings:
    """What holds for a whole command line. debug: show tracebacks."""

    debug: bool = False


def exit_code(call: Callable[[], object], settings: Settings) -> int:
    """Make `call` and return the exit code: what it returns if that is a number, DONE if not, else the failure's."""
    try:
        result = call()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except BrokenPipeError:
        return _closed_pipe()
    except (Exception, KeyboardInterrupt) as error:
        if settings.debug:
            traceback.print_exc()
        line, code = describe(error)
        sys.stderr.write(f"specc: error: {' '.join(line.split())}\n")
        return code
    return result if isinstance(result, int) else DONE


def describe(error: BaseException) -> tuple[str, int]:
    """The line and the exit code for `error`."""
    match error:
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "specc"
            return f"{error.format_message()} (see `{command} --help`)", USAGE
        case click.Abort() | KeyboardInterrupt():
            return "interrupted; nothing was changed", FAILED
        case click.ClickException():
            return error.format_message(), error.exit_code
        case CompileOptionError() | RequestOptionError():
            return str(error), USAGE
        case SpeccError():
            return str(error), FAILED
        case OSError():
            return _system_line(error), FAILED
        case MemoryError():
            return "out of memory; close other programs or use a smaller model or context", FAILED
        case _:
            reason = str(error).strip().split("\n")[0]
            return f"unexpected {type(error).__name__}: {reason}; re-run with --debug for the traceback", FAILED


def _system_line(error: OSError) -> str:
    """An operating system's refusal, with the file it is about."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _closed_pipe() -> int:
    """Whoever read stdout stopped reading: say nothing, and keep the interpreter's last flush from complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
