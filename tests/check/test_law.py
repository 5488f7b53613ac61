from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import specc_runtime.decode
from specc.check import law
from specc.check.law import check_law
from specc.check.subject import Subject
from specc.options import DraftVocabulary
from specc.progress import Silent
from specc.reports import CheckRow
from specc_runtime.accept import Accepted, accept_block, accept_tokenwise, draw
from specc_runtime.bundle import open_bundle
from tests.check.wrapping import replaced
from tests.support.tiny_models import TinyBundles

Accept = Callable[..., Accepted]


@pytest.fixture(scope="module")
def subject(tiny: TinyBundles) -> Subject:
    """Drafts that are accepted about every second time: both branches of acceptance matter."""
    return Subject.load(open_bundle(tiny.bundle(gammas=(1, 4), fuse=True)))


def judged(subject: Subject) -> dict[str, CheckRow]:
    return {row.name: row for row in check_law(subject, Silent())}


def test_the_longest_draft_of_every_kind_passes(subject: Subject) -> None:
    rows = judged(subject)
    assert list(rows) == ["sampled law", "sampled law, fused"]
    for row, way in zip(rows.values(), ("drafter, gamma 4", "drafter fused, gamma 4"), strict=True):
        assert row.passed
        assert "likeliest first, " in row.detail
        assert f"over 600 tokens of 120 texts at temperature 1, {way}" in row.detail


def accept_when_q_is_larger(drafted: Any, p: Any, q: Any, u: Any, *, scratch: Any = None) -> Accepted:
    """The swapped rule: accepts what the drafter likes better than the verifier does."""
    for i, token in enumerate(drafted):
        if u[i] >= q[i, token] / p[i, token]:
            return Accepted(i, draw(np.maximum(p[i] - q[i], 0), u[-1]))
    return Accepted(len(drafted), draw(p[-1], u[-1]))


def accept_then_argmax(drafted: Any, p: Any, q: Any, u: Any, *, scratch: Any = None) -> Accepted:
    """The verifier's token taken, not drawn."""
    accepted = accept_block(drafted, p, q, u)
    return Accepted(accepted.count, int(p[accepted.count].argmax()))


def accept_everything(drafted: Any, p: Any, q: Any, u: Any, *, scratch: Any = None) -> Accepted:
    return Accepted(len(drafted), draw(p[-1], u[-1]))


def resample_from_p(drafted: Any, p: Any, q: Any, u: Any, *, scratch: Any = None) -> Accepted:
    """Token-wise, but after a rejection from the whole law instead of what the drafter left of it."""
    accepted = accept_tokenwise(drafted, p, q, u)
    return Accepted(accepted.count, draw(p[accepted.count], u[-1]))


@pytest.mark.parametrize("rule", [accept_when_q_is_larger, accept_then_argmax, accept_everything])
def test_a_wrong_rule_fails(rule: Accept, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a drafter so good that most drafts deserve to be accepted."""
    monkeypatch.setattr(specc_runtime.decode, "accept_block", rule)
    rows = judged(subject)
    assert rows["sampled law"].passed is False
    assert rows["sampled law, fused"].passed


WRONG_RULES = {
    "a stranger": (accept_everything, resample_from_p),
    "a stranger, trimmed": (accept_everything, resample_from_p),
    "ngram": (accept_everything,),  # resampling from p is wrong by the mass of one token: not to be seen in 600
}


@pytest.mark.parametrize(
    ("draft", "rule"),
    [(draft, rule) for draft, wrong in WRONG_RULES.items() for rule in (accept_block, accept_tokenwise, *wrong)],
)
def test_any_drafter(rule: Accept, draft: str, tiny: TinyBundles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right rules pass, wrong ones fail, whoever drafts."""
    vocabulary = DraftVocabulary(count=150) if draft.endswith("trimmed") else None
    source = "ngram" if draft == "ngram" else str(tiny.model(seed=1))
    bundle = tiny.bundle(draft=source, draft_vocabulary=vocabulary)
    monkeypatch.setattr(specc_runtime.decode, "accept_block", rule)
    row = judged(Subject.load(open_bundle(bundle)))["sampled law"]
    assert row.passed is (rule in (accept_block, accept_tokenwise)), row.detail
    assert "drafter's favourites first" in row.detail


def test_a_drafter_that_does_not_reach_is_not_asked(tiny: TinyBundles) -> None:
    short = tiny.model(num_hidden_layers=1, max_position_embeddings=20)
    row = judged(Subject.load(open_bundle(tiny.bundle(draft=str(short)))))["sampled law"]
    assert row.passed
    assert "favourites" not in row.detail


def test_rounds_under_another_law_fail(subject: Subject) -> None:
    """A round that samples at temperature 1.5 where 1 was asked for."""

    def hotter(original: Any, program: Any, tokens: Any, position: int, uniforms: Any, sampling: Any) -> Any:
        return original(program, tokens, position, uniforms, replace(sampling, temperature=1.5))

    rows = judged(replaced(subject, round=hotter))
    assert rows["sampled law"].passed
    assert rows["sampled law, fused"].passed is False


def test_slow_bundles_are_judged_on_fewer_texts(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law, "MAX_SECONDS", 0.0)
    rows = judged(subject)
    assert all("over 200 tokens of 40 texts" in row.detail for row in rows.values())


def test_progress_is_by_text(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int | None]] = []

    class Steps(Silent):
        def step(self, title: str, total: int | None = None) -> "Steps":
            seen.append((title, total))
            return self

        def advance(self, amount: int = 1) -> None:
            seen.append(("text", amount))

    monkeypatch.setattr(law, "SEQUENCES", 5)
    list(check_law(subject, Steps()))
    assert seen[:6] == [("sampled law, drafter, gamma 4", 5), *[("text", 1)] * 5]
