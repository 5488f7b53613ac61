from collections import Counter

import numpy as np

from specc_runtime.history import TokenHistory


def test_ids_lengths_and_growth() -> None:
    history = TokenHistory([4, 5], vocab_rows=10)
    for token in range(1000):
        history.extend([token % 10])
    assert len(history) == 1002
    assert history.prompt_length == 2
    assert history.generated == 1000
    assert history.ids.tolist() == [4, 5, *[token % 10 for token in range(1000)]]


def test_the_callers_prompt_is_not_shared() -> None:
    prompt = np.array([1, 2, 3])
    history = TokenHistory(prompt, vocab_rows=10)
    prompt[0] = 9
    assert history.ids.tolist() == [1, 2, 3]


def test_occurrences_whenever_they_are_first_asked_for() -> None:
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 8, 5).tolist()
    early, late, output = TokenHistory(prompt, 12), TokenHistory(prompt, 12), []
    early.occurrences()
    for _ in range(6):
        added = rng.integers(0, 12, 3).tolist()
        output += added
        early.extend(added)
        late.extend(added)
        seen, counts = early.occurrences()
        assert set(np.flatnonzero(seen)) == set(prompt) | set(output)
        assert {i: int(count) for i, count in enumerate(counts) if count} == Counter(output)
    assert all(np.array_equal(a, b) for a, b in zip(early.occurrences(), late.occurrences(), strict=True))


def test_an_empty_prompt_counts_nothing() -> None:
    seen, counts = TokenHistory([], 4).occurrences()
    assert not seen.any()
    assert not counts.any()
