from dataclasses import replace

import pytest

from specc.backends import choose_backend
from specc.backends.record import CoreModel
from specc.backends.xla.sharing import Shares
from specc.errors import OptionError, TargetError
from specc.targets import load_target
from specc_runtime.manifest import StateSpec, WeightSpec
from tests.backends.xla.abstract_model import eight_billion
from tests.support.refusals import refuses

ROWS, HIDDEN, INTERMEDIATE, SIZE, KEYS = 128, 4096, 14336, 128, 8


@pytest.fixture(scope="module")
def core() -> CoreModel:
    return eight_billion(ROWS, quantised=False)


def shares(core: CoreModel, target: str) -> Shares:
    made = Shares.of(core, load_target(target))
    assert made is not None
    return made


def stacked(name: str, *shape: int) -> WeightSpec:
    return WeightSpec("verifier.layers.{layer}." + name, "bfloat16", (32, *shape))


def test_one_device_shares_nothing(core: CoreModel) -> None:
    assert Shares.of(core, load_target("h100")) is None
    assert Shares.of(core, load_target("tpu-v5e:1x1")) is None


def test_rows_of_what_reads_the_stream_are_cut_and_columns_of_what_adds_to_it(core: CoreModel) -> None:
    eight = shares(core, "tpu-v5e:2x4")
    qkv = stacked("qkv", HIDDEN + 2 * KEYS * SIZE, HIDDEN)
    assert [(w.start, w.shape[1], w.cut) for w in eight.weights(qkv)] == [
        (0, 4096, 1),
        (4096, 1024, 1),
        (5120, 1024, 1),
    ]
    gate_up = stacked("gate_up.q8b4096.codes", 2 * INTERMEDIATE, HIDDEN)
    assert [(w.start, w.cut) for w in eight.weights(gate_up)] == [(0, 1), (INTERMEDIATE, 1)]
    down = stacked("down.q8b14336.codes", HIDDEN, INTERMEDIATE)
    assert [w.cut for w in eight.weights(down)] == [2]
    for whole in (
        stacked("down.q8b14336.scale", HIDDEN, 1),
        stacked("output_bias", HIDDEN),
        stacked("mlp_norm", HIDDEN),
    ):
        assert eight.weights(whole) == (whole,)


def test_the_vocabulary_is_cut_where_it_divides(core: CoreModel) -> None:
    eight = shares(core, "h100:8")
    for name, rows, cut in (("embedding", 128_256, 0), ("head", 128_256, 0), ("embedding", 32_001, None)):
        assert [w.cut for w in eight.weights(WeightSpec(f"verifier.{name}", "bfloat16", (rows, HIDDEN)))] == [cut]


def test_a_drafters_own_weights_are_whole(core: CoreModel) -> None:
    own = WeightSpec("drafter.layers.{layer}.qkv", "bfloat16", (2, 192, 64))
    assert shares(core, "h100:8").weights(own) == (own,)


def test_caches_are_cut_by_key_heads_or_whole(core: CoreModel) -> None:
    cache = StateSpec("past.0-31.key", "present", "verifier", "layers.0-31.key", "bfloat16", (32, 1, KEYS, ROWS, SIZE))
    single = replace(cache, shape=(1, KEYS, ROWS, SIZE))
    eight, sixteen = shares(core, "h100:8"), replace(shares(core, "h100:8"), devices=16, cuts_keys=False)
    assert [eight.state(core, spec).cut for spec in (cache, single, replace(cache, role="features"))] == [2, 1, None]
    assert sixteen.state(core, cache) == cache
    qkv = stacked("qkv", HIDDEN + 2 * KEYS * SIZE, HIDDEN)
    assert [w.cut for w in sixteen.weights(qkv)] == [1, None, None]


def test_heads_that_do_not_divide_are_refused(core: CoreModel) -> None:
    target = replace(load_target("h100:8"), mesh="3", name="h100:3")
    with refuses(
        OptionError,
        "target h100:3: 3 devices can't share the verifier's 32 attention heads evenly",
        "take 2 or 4 or 8 or one chip",
    ):
        Shares.of(core, target)


def test_devices_of_a_slice() -> None:
    """A TPU7x is two devices."""
    found = {
        name: load_target(name).devices for name in ("tpu-v5e", "tpu-v5e:2x4", "tpu7x:2x2x1", "h100:8", "tpu-v4:2x2x1")
    }
    assert found == {"tpu-v5e": 1, "tpu-v5e:2x4": 8, "tpu7x:2x2x1": 8, "h100:8": 8, "tpu-v4:2x2x1": 4}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tpu-v5e:3x3", "target 'tpu-v5e' has no slice '3x3'; known: 1x1, 2x2, 2x4"),
        ("h100:2x4", "target 'h100' has no slice '2x4'; known: 2, 4, 8"),
        ("l4:2", "target 'l4' has no slice '2'; it has none of several chips"),
    ],
)
def test_another_chips_topology_is_refused(name: str, told: str) -> None:
    with refuses(TargetError, told):
        load_target(name)


def test_only_xla_takes_to_several_chips() -> None:
    assert choose_backend(load_target("h100:8"), None).name == "xla"
    assert choose_backend(load_target("h100"), None).name == "tensorrt"
    with refuses(
        TargetError, "'tensorrt', which this version of specc does not take to several chips", "--backend xla"
    ):
        choose_backend(load_target("h100:8"), "tensorrt")
