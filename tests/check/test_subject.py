import pytest

from specc.check.subject import Subject, Way, listed
from specc_runtime import SamplingParams
from specc_runtime.bundle import open_bundle
from tests.support.tiny_models import TinyBundles

GREEDY, SAMPLED = SamplingParams(), SamplingParams(temperature=1.0, acceptance="token")


@pytest.fixture(scope="module")
def fused(tiny: TinyBundles) -> Subject:
    return Subject.load(open_bundle(tiny.bundle(gammas=(1, 3), fuse=True)))


def test_ways_are_all_there_are(fused: Subject) -> None:
    chained = (Way("drafter", 1), Way("drafter", 3))
    assert fused.ways(GREEDY) == (*chained, Way("drafter", 1, fused=True), Way("drafter", 3, fused=True))
    assert fused.ways(SAMPLED) == chained  # rounds accept whole blocks only


def test_a_bundle_without_rounds_has_no_fused_ways(tiny: TinyBundles) -> None:
    subject = Subject.load(open_bundle(tiny.bundle(draft="ngram", gammas=(2,))))
    assert subject.ways(GREEDY) == (Way("ngram", 2),)


def test_each_way_is_the_one_it_says(fused: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("round", "draft"):
        original = getattr(fused.programs, name)
        monkeypatch.setattr(fused.programs, name, lambda *a, n=name, o=original: (calls.append(n), o(*a))[1])
    prompt, params = [1, 2, 3], SamplingParams(max_new_tokens=9, ignore_eos=True)
    for way in fused.ways(GREEDY):
        calls.clear()
        fused.engine(fused=way.fused).generate(prompt, params, drafter=way.drafter, gamma=way.gamma).finish()
        assert ("round" in calls) == way.fused, way


def test_listing() -> None:
    ways = [Way("a", 1), Way("a", 3), Way("b", 2), Way("a", 3, fused=True)]
    assert listed(ways) == "a, gamma 1, 3; b, gamma 2; a fused, gamma 3"
    assert str(ways[-1]) == "a fused, gamma 3"
