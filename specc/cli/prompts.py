"""Where `specc run` takes its prompt from, and how it becomes a chat turn."""

import sys
from pathlib import Path

import click

from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import TokenizerInfo


def prompt_text(text: str | None, file: Path | None) -> str:
    """The prompt given as `text`, in `file`, or on stdin; the line end a file or stdin closes with is not part of it.

    Raises click.UsageError when it is given twice, not at all, or not in UTF-8.
    """
    if text is not None and file is not None:
        raise click.UsageError("the prompt is given twice; keep one of --prompt and --prompt-file")
    if text is not None:
        return text
    if file is None and sys.stdin.isatty():
        raise click.UsageError("no prompt; give --prompt TEXT or --prompt-file FILE, or pipe one in")
    try:
        content = file.read_bytes() if file is not None else sys.stdin.buffer.read()
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file or 'the prompt on stdin'} is not UTF-8 text (byte {error.start})") from error


def chat_turn(bundle: Path, info: TokenizerInfo | None, text: str) -> str:
    """`text` as a user's turn in the chat format of the bundle at `bundle`. Raises TokenizerError if it has none."""
    from tokenizers import Tokenizer

    from specc.render import chat_prompt

    if info is None or info.chat_template is None:
        raise TokenizerError(f"{bundle} has no chat template; run it without --chat")
    tokenizer = Tokenizer.from_file(str(bundle / info.file))
    ids = {"bos_token": info.bos_id, "eos_token": next(iter(info.eos_ids), None), "pad_token": info.pad_id}
    texts = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
    special = {name: token for name, token in texts.items() if token is not None}
    return chat_prompt(info.chat_template, [{"role": "user", "content": text}], special)
