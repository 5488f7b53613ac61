import json
from collections import Counter
from pathlib import Path

import pytest

from specc.bench.questions import Question, draw_questions, read_questions
from specc.errors import OptionError
from tests.support.refusals import refuses


def spec_bench(folder: Path, sizes: dict[str, int]) -> Path:
    """A question.jsonl with so many questions a category, category after category."""
    records = [
        {"question_id": f"{category}{i}", "category": category, "turns": [f"ask {i}", "go on"], "reference": []}
        for category, count in sizes.items()
        for i in range(count)
    ]
    file = folder / "question.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records) + "\n")
    return file


def test_question_jsonl(tmp_path: Path) -> None:
    questions = read_questions(spec_bench(tmp_path, {"qa": 2, "rag": 1}))
    assert questions[2] == Question("rag0", "rag", ("ask 0", "go on"))
    assert len(questions) == 3


def test_text_is_a_prompt_a_line_or_one_prompt(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("first\n\n  second \n")
    assert read_questions(file) == [Question("1", "notes", ("first",)), Question("3", "notes", ("second",))]
    assert read_questions(file, "file") == [Question("1", "notes", ("first\n\n  second",))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "question.jsonl:1: not JSON"),
        ("[]", "question.jsonl:1: no turns"),
        ('{"category": "qa"}', "no turns"),
        ('{"turns": []}', "no turns"),
        ('{"turns": "text"}', "no turns"),
        ('{"turns": ["", "x"]}', "no turns"),
        ('{"turns": [1]}', "no turns"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "question.jsonl"
    file.write_text(line + "\n")
    with refuses(OptionError, message):
        read_questions(file)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    for name, content in (("a.jsonl", b"\n"), ("a.txt", b" \n"), ("b.txt", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content)
        with refuses(OptionError, name):
            read_questions(tmp_path / name)
    with refuses(OptionError, "holds no prompt"):
        read_questions(tmp_path / "a.txt", "file")


def draw(questions: list[Question], seed: int = 0, **most: int) -> list[Question]:
    return draw_questions(questions, per_category=most.get("per_category"), limit=most.get("limit"), seed=seed)


def test_categories_are_drawn_evenly(tmp_path: Path) -> None:
    questions = read_questions(spec_bench(tmp_path, {"qa": 30, "rag": 30, "maths": 3}))
    assert Counter(q.category for q in draw(questions, per_category=5)) == {"qa": 5, "rag": 5, "maths": 3}
    assert Counter(q.category for q in draw(questions, limit=12)) == {"qa": 5, "rag": 4, "maths": 3}
    assert Counter(q.category for q in draw(questions, limit=7)) == {"qa": 3, "rag": 2, "maths": 2}
    assert len(draw(questions)) == 63


def test_categories_take_turns(tmp_path: Path) -> None:
    questions = read_questions(spec_bench(tmp_path, {"qa": 9, "rag": 9}))
    assert [q.category for q in draw(questions, limit=6)] == ["qa", "rag"] * 3


def test_the_seed_decides(tmp_path: Path) -> None:
    questions = read_questions(spec_bench(tmp_path, {"qa": 30}))
    assert draw(questions, limit=5) == draw(questions, limit=5)
    assert draw(questions, limit=5) != draw(questions, limit=5, seed=1)
    assert len({q.id for q in draw(questions)}) == 30
