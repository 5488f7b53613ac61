"""Where `specc run` takes its prompt from."""

import sys
from pathlib import Path

import click


def prompt_text(text: str | None, file: Path | None) -> str:
    """The prompt given as `text`, in `file`, or on stdin; the line end a file or stdin closes with is not part of it.

    Raises click.UsageError when it is given twice, not at all, empty, or not in UTF-8.
    """
    if text is not None and file is not None:
        raise click.UsageError("the prompt is given twice; keep one of --prompt and --prompt-file")
    if text is not None:
        return text
    if file is None and sys.stdin.isatty():
        raise click.UsageError("no prompt; give --prompt TEXT or --prompt-file FILE, or pipe one in")
    try:
        content = file.read_bytes() if file is not None else sys.stdin.buffer.read()
        prompt = content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file or 'the prompt on stdin'} is not UTF-8 text (byte {error.start})") from error
    if not prompt:
        raise click.UsageError(f"{file or 'stdin'} holds no prompt; give --prompt TEXT or --prompt-file FILE")
    return prompt
