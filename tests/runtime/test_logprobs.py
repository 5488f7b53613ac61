import numpy as np
import pytest
from scipy.special import log_softmax

from specc_runtime.logprobs import token_logprobs


@pytest.mark.parametrize("size", [6, 5000])
def test_they_are_the_log_softmax_of_the_raw_row(size: int) -> None:
    logits = (np.random.default_rng(size).standard_normal((3, size)) * 5).astype(np.float32)
    expected = log_softmax(logits.astype(np.float64), axis=1)
    for i, entry in enumerate(token_logprobs(logits, [4, 0, 3], token_count=size, top=5)):
        assert entry.token == [4, 0, 3][i]
        assert entry.logprob == pytest.approx(expected[i, entry.token], abs=1e-5)
        assert [token for token, _ in entry.top] == np.argsort(-expected[i])[:5].tolist()
        assert [value for _, value in entry.top] == pytest.approx(np.sort(expected[i])[::-1][:5], abs=1e-5)


def test_pads_are_no_alternatives_and_have_no_share() -> None:
    logits = np.array([[1.0, 2.0, 0.0, 50.0]], dtype=np.float32)
    (entry,) = token_logprobs(logits, [1], token_count=3, top=4)
    assert entry.top[0][0] == 1
    assert [token for token, _ in entry.top] == [1, 0, 2]
    assert sum(np.exp(value) for _, value in entry.top) == pytest.approx(1, abs=1e-6)


def test_equals_come_by_id_and_zero_alternatives_are_none() -> None:
    logits = np.array([[3.0, 5.0, 3.0, 3.0]], dtype=np.float32)
    (entry,) = token_logprobs(logits, [2], token_count=4, top=2)
    assert [token for token, _ in entry.top] == [1, 0]
    assert token_logprobs(logits, [2], token_count=4, top=0)[0].top == ()


def test_a_row_alone_gives_what_it_gives_in_a_block() -> None:
    logits = (np.random.default_rng(1).standard_normal((4, 777)) * 9).astype(np.float32)
    block = token_logprobs(logits, [1, 2, 3], token_count=777, top=3)
    plain = [token_logprobs(logits[i : i + 1], [i + 1], token_count=777, top=3)[0] for i in range(3)]
    assert block == plain
