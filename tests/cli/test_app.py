import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

import specc as package
from specc.cli.app import group

COMMANDS = ("compile", "run", "inspect", "check", "targets")
HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "rich", "jinja2", "tokenizers", "gguf", "huggingface_hub")


def process(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "specc.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_help_lists_the_commands() -> None:
    result = process("--help")
    assert result.returncode == 0
    assert all(f"\n  {command} " in result.stdout for command in COMMANDS)


def test_help_lists_commands_in_the_order_of_use() -> None:
    text = process("--help").stdout
    places = [text.index(f"\n  {command} ") for command in ("compile", "run", "inspect", "check", "targets")]
    assert places == sorted(places)


@pytest.mark.parametrize("command", ["compile", "run", "draft distill"])
def test_help_ends_with_examples_that_parse(specc: Callable[..., Any], command: str) -> None:
    lines = specc(*command.split(), "--help").out.split("Examples:\n")[1].splitlines()
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line.strip().split("| ")[-1])
        shown: click.Command = group
        while isinstance(shown, click.Group):
            shown = shown.commands[arguments.pop(0)]
        assert shown.make_context(name, arguments).params
        assert len(line) <= 86


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, specc.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_starts_quickly() -> None:
    """Processor seconds, not wall time: other tests run beside this one."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.4


def test_version() -> None:
    assert process("--version").stdout == f"specc {package.__version__}\n"


def test_no_arguments_show_the_help() -> None:
    result = process()
    assert result.returncode == 2
    assert "Usage: specc [OPTIONS] COMMAND" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_json_and_debug(specc: Callable[..., Any], command: str) -> None:
    outcome = specc(command, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out
    assert "--debug" in outcome.out


@pytest.mark.parametrize("arguments", [("nope",), ("targets", "--nope"), ("compile",), ("inspect", "a", "b")])
def test_misuse_is_one_line_and_exits_with_2(arguments: tuple[str, ...]) -> None:
    result = process(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("specc: error: ")
    assert result.stderr.count("\n") == 1
    assert "--help`)" in result.stderr


def test_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "specc.cli", "targets"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr == ""


def test_closed_streams_are_no_errors() -> None:
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        shell = f'exec "$0" -m specc.cli targets {closed}'
        assert subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, check=False).returncode == 0
    shell = 'exec "$0" -m specc.cli run nowhere <&-'
    result = subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "stdin holds no prompt" in result.stderr


_DIE = """
import os, signal, time
from specc.cli import app
number = getattr(signal, {name!r})
# said either way: what a shell starts in the background ignores SIGINT from the start
default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
signal.signal(number, signal.SIG_IGN if {ignored} else default)
@app.group.command("die")
def die() -> None:
    try:
        os.kill(os.getpid(), number)
        time.sleep(0.1)
    finally:
        print("cleaned up")
app.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_polite_kill_cleans_up_as_ctrl_c_does(name: str, ignored: bool) -> None:
    code = _DIE.format(name=name, ignored=ignored)
    result = subprocess.run([sys.executable, "-c", code, "die"], capture_output=True, text=True, check=False)
    assert result.stdout == "cleaned up\n"
    assert result.returncode == (0 if ignored else 1)
    assert result.stderr.strip() == ("" if ignored else "specc: error: interrupted; nothing was changed")
