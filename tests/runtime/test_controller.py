"""The adaptive controller: it finds the gamma that pays, gives up what does not, and never loses much on the way."""

from statistics import mean
from time import thread_time

import pytest

from specc_runtime import Engine, OptionError, SamplingParams, Stats
from specc_runtime.acceptance_estimate import AcceptanceEstimate
from specc_runtime.controller import FIRST_PROBE, PROBE_SHARE, STAKE, AdaptiveGamma, FixedGamma
from specc_runtime.cost_estimate import CostEstimate
from tests.support.simulated_rounds import PLAIN_S, Machine, controller, simulate
from tests.support.table_programs import blend, table_engine, with_memory

CHEAP = Machine([1, 1.08, 1.12, 1.17, 1.22, 1.27, 1.32])  # verifying is bound by bandwidth
USUAL = Machine([1, 1.26, 1.36, 1.5, 1.62, 1.75, 1.9])
DEAR = Machine([1, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6])
MACHINES = pytest.mark.parametrize("machine", [CHEAP, USUAL, DEAR], ids=["cheap", "usual", "dear"])
HOPEFUL = [0.6**i for i in range(1, 7)]
HOPELESS = [0.05**i for i in range(1, 7)]


def mean_speedup(machine: Machine, prior: list[float], likely: float, tokens: int, runs: int = 12) -> float:
    return mean(
        simulate(controller(machine, prior, tokens), machine, lambda _: likely, tokens, seed=seed).speedup
        for seed in range(runs)
    )


def test_a_fixed_gamma_is_fixed() -> None:
    assert FixedGamma(3).choose(Stats()) == 3


@MACHINES
@pytest.mark.parametrize("likely", [0.0, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("prior", [HOPEFUL, HOPELESS], ids=["hopeful", "hopeless"])
def test_a_long_text_comes_near_the_best_fixed_gamma(machine: Machine, likely: float, prior: list[float]) -> None:
    best, _ = machine.best(likely)
    assert mean_speedup(machine, prior, likely, 1500, runs=4) > 0.91 * best


@MACHINES
@pytest.mark.parametrize("likely", [0.5, 0.7, 0.9])
def test_where_drafting_was_measured_to_pay_128_tokens_are_enough(machine: Machine, likely: float) -> None:
    best, _ = machine.best(likely)
    assert mean_speedup(machine, [likely**i for i in range(1, 7)], likely, 128) > 0.92 * best


@MACHINES
def test_the_best_gamma_is_chosen_within_60_rounds(machine: Machine) -> None:
    _, best = machine.best(0.8)
    run = simulate(controller(machine, HOPEFUL, 3000), machine, lambda _: 0.8, 3000)
    drafted = [gamma for gamma in run.gammas[60:200] if gamma]
    assert len(drafted) > 0.9 * 140
    assert sum(abs(gamma - best) <= 1 for gamma in drafted) > 0.8 * len(drafted)


@MACHINES
@pytest.mark.parametrize("prior", [HOPEFUL, HOPELESS], ids=["hopeful", "hopeless"])
def test_a_useless_drafter_costs_less_than_two_percent_in_the_long_run(machine: Machine, prior: list[float]) -> None:
    for seed in range(5):
        run = simulate(controller(machine, prior, 1000), machine, lambda _: 0.0, 1000, seed=seed)
        assert run.speedup > 0.98


@MACHINES
@pytest.mark.parametrize(("prior", "stake"), [(HOPEFUL, STAKE), (HOPELESS, FIRST_PROBE)], ids=["hopeful", "hopeless"])
def test_probes_are_paid_for_before_they_are_made(machine: Machine, prior: list[float], stake: float) -> None:
    tokens = 2000
    run = simulate(controller(machine, prior, tokens), machine, lambda _: 0.0, tokens, noise=0.0)
    assert run.took - tokens <= stake + PROBE_SHARE * tokens + 1e-9
    probes = sum(gamma > 0 for gamma in run.gammas[200:])
    affordable = PROBE_SHARE * tokens / (machine.costs[1] - 1)
    assert probes == pytest.approx(0.9 * affordable, rel=0.15)


def test_drafting_resumes_when_the_text_changes() -> None:
    turn, tokens = 1000, 2000
    run = simulate(controller(USUAL, HOPEFUL, tokens), USUAL, lambda n: 0.0 if n < turn else 0.9, tokens)
    assert run.gammas[100:900].count(0) > 750
    after = run.gammas[-60:]
    assert mean(after) > 4


def test_drafting_ends_when_the_text_changes() -> None:
    turn, tokens = 1000, 2000
    run = simulate(controller(USUAL, HOPEFUL, tokens), USUAL, lambda n: 0.9 if n < turn else 0.0, tokens)
    assert run.gammas[-900:].count(0) > 850


def test_wrong_costs_are_corrected_by_measuring() -> None:
    """Guessed to be free, it is dear; and the other way round."""
    for guessed, machine in ((CHEAP, DEAR), (DEAR, CHEAP)):
        chooser = controller(machine, HOPEFUL, 1500, guessed=guessed.costs)
        run = simulate(chooser, machine, lambda _: 0.8, 3000)
        assert run.gammas[0] == 0, "a machine nobody measured is timed first"
        assert run.speedup > 0.9 * machine.best(0.8)[0]


def test_a_text_too_short_to_pay_for_the_drafters_prompt_is_decoded_plainly() -> None:
    machine = Machine(USUAL.costs, refill=0.02)
    for tokens, pays in ((40, False), (400, True)):
        run = simulate(controller(machine, HOPEFUL, tokens, prompt=800), machine, lambda _: 0.7, tokens, prompt=800)
        assert (max(run.gammas) > 0) == pays
        assert run.speedup > 1 if pays else run.speedup == 1


def test_catching_up_counts_as_a_probes_cost() -> None:
    machine = Machine(USUAL.costs, refill=0.005)
    run = simulate(controller(machine, HOPELESS, 2000), machine, lambda _: 0.0, 2000, noise=0.0)
    assert run.took - 2000 <= FIRST_PROBE + PROBE_SHARE * 2000 + 1e-9
    assert sum(gamma > 0 for gamma in run.gammas) > 10


def test_rounds_without_a_draft_teach_nothing_about_acceptance() -> None:
    chooser, stats = controller(USUAL, HOPEFUL, 100), Stats()
    expected = chooser.choose(stats)
    for _ in range(30):
        stats.record_round(0, 0, 1)
        stats.last_round.verify_s = PLAIN_S
        assert chooser.choose(stats) == expected


def test_choosing_takes_a_few_microseconds() -> None:
    """5 us a round for the four gammas of a usual bundle; the best of many tries, as a machine may be busy."""
    costs = CostEstimate(USUAL.costs[:5], PLAIN_S)
    chooser, stats = AdaptiveGamma(AcceptanceEstimate(HOPEFUL, 4), costs, room=1 << 30, missed=0), Stats()
    rounds = []
    for i in range(200):
        stats.record_round(4, i % 5, i % 5 + 1)
        stats.last_round.verify_s = 1.6 * PLAIN_S
        rounds.append(stats.last_round)
    best = 1.0
    for _ in range(40):
        start = thread_time()
        for stats.last_round in rounds:
            chooser.choose(stats)
        best = min(best, (thread_time() - start) / len(rounds))
    assert best < 10e-6


# Through the engine.

V = 11
VERIFIER = with_memory(V, seed=0)
DRAFTER = blend(VERIFIER, with_memory(V, seed=1), 0.6)
PROMPT = [1, 2, 3, 1, 2]


@pytest.fixture
def engine() -> Engine:
    return table_engine(VERIFIER, DRAFTER, vocabulary=V)[0]


@pytest.mark.parametrize("drafter", [None, "draft", "ngram"])
def test_auto_gives_plain_decodings_tokens(engine: Engine, drafter: str | None) -> None:
    params = SamplingParams(max_new_tokens=50)
    plain = engine.generate(PROMPT, params, plain=True).finish().ids
    for _ in range(3):  # what one request learns of costs the next one uses
        assert engine.generate(PROMPT, params, drafter=drafter, gamma="auto").finish().ids == plain


def test_auto_drafts_at_most_the_bundles_longest_gamma(engine: Engine) -> None:
    stats = engine.generate(PROMPT, SamplingParams(max_new_tokens=50), gamma="auto").finish().stats
    assert len(stats.spec_decode_num_accepted_tokens_per_pos) <= max(engine.manifest.gammas)


def test_another_word_is_refused(engine: Engine) -> None:
    with pytest.raises(OptionError, match="gamma is 'fast'"):
        engine.generate(PROMPT, gamma="fast")  # type: ignore[arg-type]


def test_every_sample_learns_anew(engine: Engine) -> None:
    params = SamplingParams(max_new_tokens=20, n=3, temperature=1.0, seed=1)
    seen = {id(g._job.controller) for g in list(engine.generate_samples(PROMPT, params, gamma="auto"))}
    assert len(seen) == 3


def test_the_rounds_records_add_up_to_the_totals(engine: Engine) -> None:
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=40), gamma=3)
    records = []
    for _ in generation:
        if not records or records[-1] is not generation.stats.last_round:
            records.append(generation.stats.last_round)
    stats = generation.stats
    assert len(records) == stats.rounds
    assert sum(record.emitted for record in records) == stats.emitted_tokens
    assert sum(record.accepted for record in records) == stats.spec_decode_num_accepted_tokens
    assert sum(record.refilled for record in records) == stats.drafter_prefilled_tokens
    for name in ("draft_s", "verify_s", "host_s", "refill_s"):
        assert sum(getattr(record, name) for record in records) == pytest.approx(getattr(stats, name), abs=1e-9)
    assert [record.prefilled for record in records] == [len(PROMPT)] + [0] * (len(records) - 1)
    assert records[0].prefill_s > 0
