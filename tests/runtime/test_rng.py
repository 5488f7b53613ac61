import numpy as np
import pytest
from scipy.stats import chisquare

from specc_runtime.errors import OptionError
from specc_runtime.rng import Purpose, UniformStream, fresh_seed, round_uniforms, threefry2x32, uniforms

# Random123's kat_vectors, "threefry2x32 20": counter, key, output.
KNOWN_ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_published_known_answers(counter: tuple[int, int], key: tuple[int, int], output: tuple[int, int]) -> None:
    first, second = threefry2x32(key, [counter[0]], [counter[1]])
    assert (int(first[0]), int(second[0])) == output


def test_blocks_side_by_side_do_not_touch_each_other() -> None:
    key = KNOWN_ANSWERS[2][1]
    first, second = threefry2x32(key, [0, 0x243F6A88, 0xFFFFFFFF], [7, 0x85A308D3, 0xFFFFFFFF])
    assert (int(first[1]), int(second[1])) == KNOWN_ANSWERS[2][2]
    for block in (0, 2):
        counter = ([0, 0, 0xFFFFFFFF][block], [7, 0, 0xFFFFFFFF][block])
        alone = threefry2x32(key, [counter[0]], [counter[1]])
        assert (first[block], second[block]) == (alone[0][0], alone[1][0])


@pytest.mark.parametrize(
    ("seed", "sample", "committed"), [(0, 0, 0), (5, 3, 77), (2**64 - 1, 2**16 - 1, 2**32 - 1), (1 << 40, 1, 2048)]
)
@pytest.mark.parametrize("purpose", list(Purpose))
def test_the_five_parts_of_a_key_are_packed_as_documented(
    seed: int, sample: int, committed: int, purpose: Purpose
) -> None:
    tags = [sample << 16 | purpose << 12 | slot for slot in range(5)]
    bits, _ = threefry2x32((seed >> 32, seed & 0xFFFFFFFF), [committed] * 5, tags)
    assert uniforms(seed, sample, committed, purpose, 5).tolist() == [int(word >> 8) / 2**24 for word in bits]


def test_bits_equal_jax() -> None:
    jax = pytest.importorskip("jax")
    extend = pytest.importorskip("jax.extend.random")
    seed, sample, committed, slots = 123456789, 2, 301, 6
    tags = np.uint32(sample << 16 | Purpose.ACCEPT << 12) + np.arange(slots, dtype=np.uint32)
    counters = jax.numpy.concatenate([jax.numpy.full(slots, committed, "uint32"), jax.numpy.asarray(tags)])
    bits = np.asarray(extend.threefry_2x32(jax.random.PRNGKey(seed), counters))[:slots]
    assert uniforms(seed, sample, committed, Purpose.ACCEPT, slots).tolist() == ((bits >> 8) / 2**24).tolist()


def test_a_slot_does_not_depend_on_how_many_are_asked_for() -> None:
    assert uniforms(9, 0, 40, Purpose.DRAFT, 8)[:3].tolist() == uniforms(9, 0, 40, Purpose.DRAFT, 3).tolist()
    assert uniforms(9, 0, 40, Purpose.DRAFT, 0).shape == (0,)


@pytest.mark.parametrize("gamma", [0, 1, 5])
def test_a_rounds_uniforms_are_those_of_its_purposes(gamma: int) -> None:
    draft, accept = round_uniforms(11, 4, 60, gamma)
    assert draft.tolist() == uniforms(11, 4, 60, Purpose.DRAFT, gamma).tolist()
    assert accept[:gamma].tolist() == uniforms(11, 4, 60, Purpose.ACCEPT, gamma).tolist()
    assert accept[gamma:].tolist() == uniforms(11, 4, 60, Purpose.EMIT, 1).tolist()


def test_a_stream_gives_every_rounds_own_numbers() -> None:
    """Lengths that rise as rounds do, gammas that change, a jump back for another text: the same as one by one."""
    stream, lengths = UniformStream(11, 4), [*range(60, 500, 3), 7, 8, 9, 10_000, (1 << 32) - 1]
    for i, committed in enumerate(lengths):
        gamma = (i * i) % 6
        draft, accept = stream.round(committed, gamma)
        expected = round_uniforms(11, 4, committed, gamma)
        assert draft.tolist() == expected.draft.tolist()
        assert accept.tolist() == expected.accept.tolist()


def test_a_stream_takes_drafts_of_any_length() -> None:
    draft, accept = UniformStream(1, 0).round(5, 600)
    assert (len(draft), len(accept)) == (600, 601)


def test_every_part_of_the_key_changes_the_numbers() -> None:
    base = uniforms(1, 0, 10, Purpose.DRAFT, 4)
    others = [
        uniforms(2, 0, 10, Purpose.DRAFT, 4),
        uniforms(1 + (1 << 32), 0, 10, Purpose.DRAFT, 4),
        uniforms(1, 1, 10, Purpose.DRAFT, 4),
        uniforms(1, 0, 11, Purpose.DRAFT, 4),
        uniforms(1, 0, 10, Purpose.ACCEPT, 4),
    ]
    assert all(not set(base) & set(other) for other in others)


def test_numbers_of_neighbouring_rounds_are_uniform() -> None:
    values = np.concatenate([round_uniforms(2, 0, committed, 4).accept for committed in range(4000)])
    assert values.min() >= 0
    assert values.max() < 1
    assert chisquare(np.histogram(values, bins=64, range=(0, 1))[0]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("seed", "sample", "committed", "slots"),
    [(-1, 0, 0, 1), (2**64, 0, 0, 1), (0, 2**16, 0, 1), (0, 0, 2**32, 1), (0, 0, 0, 4097)],
)
def test_what_would_overflow_a_field_is_refused(seed: int, sample: int, committed: int, slots: int) -> None:
    with pytest.raises(OptionError, match="uniforms"):
        uniforms(seed, sample, committed, Purpose.DRAFT, slots)


def test_fresh_seeds_differ_and_fit() -> None:
    seeds = {fresh_seed() for _ in range(4)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**64 for seed in seeds)
