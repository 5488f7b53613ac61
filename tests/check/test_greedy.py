from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.check.greedy import check_greedy
from specc.check.subject import Subject
from specc.progress import Silent
from specc.reports import CheckRow
from specc_runtime.bundle import open_bundle
from tests.check.wrapping import replaced
from tests.support.checkpoints import decoder_config, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.tiny_models import EOS, TOKENS, TinyBundles, compiled, tiny_weights


def judged(subject: Subject) -> list[CheckRow]:
    return list(check_greedy(subject, Silent()))


@pytest.fixture(scope="module")
def subject(tiny: TinyBundles) -> Subject:
    return Subject.load(open_bundle(tiny.bundle(gammas=(1, 3), fuse=True)))


def test_every_way_on_every_prompt(subject: Subject) -> None:
    rows = judged(subject)
    assert [row.passed for row in rows] == [True] * 3
    listing = "32 tokens identical to plain decoding for drafter, gamma 1, 3; drafter fused, gamma 1, 3"
    assert {row.detail for row in rows} == {listing}


def test_a_verifier_that_is_wrong_beside_drafted_tokens(subject: Subject) -> None:
    def verify(original: Any, tokens: Any, position: int, rows: int) -> Any:
        logits = original(tokens, position, rows)
        return np.roll(logits, 1, axis=-1) if rows == 4 else logits

    (row, *_) = judged(replaced(subject, verify=verify))
    assert row.passed is False
    assert "drafter, gamma 3 differs at token" in row.detail
    assert "top-2 margin" in row.detail
    assert "gamma 1 differs" not in row.detail


@pytest.mark.parametrize("gamma", [1, 3])
def test_a_round_that_emits_something_else(gamma: int, subject: Subject) -> None:
    def wrong(original: Any, program: Any, *given: Any) -> Any:
        ids = original(program, *given)
        return np.where(program.width == gamma + 1, (ids + 1) % TOKENS, ids)

    (row, *_) = judged(replaced(subject, round=wrong))
    assert row.passed is False
    assert row.detail.startswith(f"drafter fused, gamma {gamma} differs at token 1,")
    assert row.detail.count("differs") == 1


def test_a_text_that_is_too_short(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = Subject.generate
    monkeypatch.setattr(Subject, "generate", lambda *given: generate(*given)[:-1])
    (row, *_) = judged(subject)
    assert row.passed is False
    assert "drafter, gamma 1 gives 31 tokens, plain decoding 32" in row.detail


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A model to which every token has a twin with the same logit: each greedy step is a tie."""
    root = tmp_path_factory.mktemp("twins")
    config = decoder_config()
    weights = tiny_weights(config)
    weights["lm_head.weight"][TOKENS // 2 :] = weights["lm_head.weight"][: TOKENS // 2]
    model = write_hf_checkpoint(root / "m", config, weights, tiny_tokenizer_json(TOKENS, [EOS]))
    compiled(model, root / "b", gammas=(3,))
    return Subject.load(open_bundle(root / "b"))


def favouring(half: slice, by: float) -> Callable[..., Any]:
    """A verifier that, when fed several tokens, favours half of the vocabulary."""

    def verify(original: Any, tokens: Any, position: int, rows: int) -> Any:
        logits = original(tokens, position, rows).copy()
        logits[:, half] += np.float32(by if rows > 1 else 0)
        return logits

    return verify


def test_ties_are_forgiven(twins: Subject) -> None:
    rows = judged(replaced(twins, verify=favouring(slice(TOKENS // 2, None), 1e-5)))
    assert [row.passed for row in rows] == [True] * 3
    assert all("gamma 3 differs at token 1, top-2 margin 0 (at most 0.001)" in row.detail for row in rows)


def test_the_margin_is_the_verifiers_own(subject: Subject, tmp_path: Path) -> None:
    """The same favour on a model without ties is no excuse."""
    rows = judged(replaced(subject, verify=favouring(slice(TOKENS // 2, None), 3.0)))
    assert False in [row.passed for row in rows]
