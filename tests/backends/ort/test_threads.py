import os
from pathlib import Path

import pytest

from specc.backends.ort import threads
from specc.backends.ort.threads import measure_threads
from specc_runtime.bundle import Bundle, open_bundle
from tests.support.manifests import write_bundle
from tests.support.tiny_models import compiled, tiny_model


@pytest.mark.parametrize(
    ("cores", "times", "best"),
    [
        (1, {1: 9.0}, 1),
        (4, {1: 8.0, 2: 4.5, 4: 3.0}, 4),
        (4, {1: 8.0, 2: 4.5, 4: 4.4}, 2),  # not worth two more
        (6, {1: 8.0, 2: 7.9, 4: 7.8, 6: 5.0}, 6),
        (8, {1: 2.0, 2: 3.0, 4: 4.0, 8: 9.0}, 1),
    ],
)
def test_the_fewest_that_are_fastest(
    cores: int, times: dict[int, float], best: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[int] = []

    def step_time(_: Bundle, count: int) -> float:
        tried.append(count)
        return times[count]

    monkeypatch.setattr(threads, "_step_time", step_time)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert measure_threads(open_bundle(write_bundle(tmp_path))) == best
    assert tried == list(times)


@pytest.mark.parametrize("context", [16, 48])
def test_on_a_real_bundle(context: int, tmp_path: Path) -> None:
    compiled(tiny_model(tmp_path / "m"), tmp_path / "b", context=context)
    assert 1 <= measure_threads(open_bundle(tmp_path / "b")) <= (os.cpu_count() or 1)
