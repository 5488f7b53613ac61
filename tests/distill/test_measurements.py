import pytest

from specc.distill.measurements import Acceptance


def test_positions_and_tokens_follow_from_survival() -> None:
    measured = Acceptance((0.5, 0.25, 0.0, 0.0), 0.52, 10)
    assert measured.per_position == (0.5, 0.5, 0.0, 0.0)
    assert measured.tokens_per_round(1) == pytest.approx(1.5, abs=1e-12)
    assert measured.tokens_per_round(4) == pytest.approx(1.75, abs=1e-12)
