"""Prompt files: Spec-Bench's question.jsonl, or plain text."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specc.errors import OptionError

TextForm = Literal["lines", "file"]
_FORMAT = 'give objects with "question_id", "category" and "turns", a list of texts, one a line'


@dataclass(frozen=True)
class Question:
    """What is asked, turn by turn. category: answers are summed up by it."""

    id: str
    category: str
    turns: tuple[str, ...]


def read_questions(file: Path, form: TextForm = "lines") -> list[Question]:
    """The questions of a .jsonl file, in its order; of any other file, each line that is not blank, or the whole text.

    Text questions have the file's name as category. Raises OptionError when the file is empty or not understood.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"prompts: {file} is not UTF-8 text (byte {error.start})") from error
    if file.suffix == ".jsonl":
        questions = [_question(line, f"{file}:{number}") for number, line in _numbered_lines(text)]
    elif form == "file":
        questions = [Question("1", file.stem, (text.strip(),))] if text.strip() else []
    else:
        questions = [Question(str(number), file.stem, (line.strip(),)) for number, line in _numbered_lines(text)]
    if not questions:
        raise OptionError(f"prompts: {file} holds no prompt")
    return questions


def draw_questions(
    questions: Sequence[Question], *, per_category: int | None, limit: int | None, seed: int
) -> list[Question]:
    """At most `per_category` of each category and `limit` in all, drawn at random, categories as evenly as they allow.

    In an order where categories take turns, so that a drifting machine slows all alike.
    """
    drawer = random.Random(seed)
    stacks: dict[str, list[Question]] = {}
    for question in questions:
        stacks.setdefault(question.category, []).append(question)
    for category, stack in stacks.items():
        stacks[category] = drawer.sample(stack, len(stack))[:per_category]
    longest = max(map(len, stacks.values()), default=0)
    turns = [stack[place] for place in range(longest) for stack in stacks.values() if place < len(stack)]
    return turns[:limit]


def _numbered_lines(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _question(line: str, place: str) -> Question:
    try:
        record: Any = json.loads(line)
    except ValueError as error:
        raise OptionError(f"prompts: {place}: not JSON ({error}); {_FORMAT}") from error
    turns = record.get("turns") if isinstance(record, dict) else None
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise OptionError(f"prompts: {place}: no turns; {_FORMAT}")
    return Question(str(record.get("question_id", place)), str(record.get("category", "all")), tuple(turns))
