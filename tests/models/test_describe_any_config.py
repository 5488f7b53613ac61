"""Whatever a config.json holds, it is read or refused in one line: nothing else is raised."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from specc.errors import UnsupportedError
from specc.models.families import describe, known_families
from specc.models.limits import largest_context
from specc.models.spec import DecoderSpec
from tests.models.published_configs import SUPPORTED
from tests.models.support import tiny_config

ROPE = ("rope_type", "type", "factor", "rope_theta", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow",
        "original_max_position_embeddings", "attention_factor", "mscale", "mscale_all_dim", "truncate")  # fmt: skip
FIELDS = sorted({field for config in SUPPORTED.values() for field in config} | {"mlp_bias", "partial_rotary_factor"})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 3, 4, 8, 16, 64, 2**31, 10**400])
    | st.floats()
    | st.sampled_from([0.0, 1.0, 1e-320, 1e308])
    | st.sampled_from(["", "default", "linear", "llama3", "yarn", "dynamic", "silu", "a\nb"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
SCALINGS = st.dictionaries(st.sampled_from(ROPE), SCALARS) | VALUES
CHANGES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3)
ROPES = st.dictionaries(st.sampled_from(["rope_scaling", "rope_parameters"]), SCALINGS, max_size=2)


@given(family=st.sampled_from(known_families()), changes=CHANGES, ropes=ROPES)
@example(family="llama", changes={}, ropes={"rope_scaling": {"\r0": None}})
@example(family="llama", changes={}, ropes={"rope_scaling": {"'": None}})
@example(
    family="llama", changes={}, ropes={"rope_scaling": {"rope_type": "yarn", "factor": 1e-320, "rope_theta": 1e308}}
)
def test_a_config_is_read_or_refused(family: str, changes: dict[str, Any], ropes: dict[str, Any]) -> None:
    spec, refusal = read({**tiny_config(family), **changes, **ropes})
    if spec is None:
        assert len(refusal.splitlines()) == 1
        assert refusal.startswith("tiny: config.json field ")
    else:
        assert largest_context(spec) >= 1
        assert all(frequency >= 0 for frequency in spec.rope.inv_freq)


def read(config: dict[str, Any]) -> tuple[DecoderSpec | None, str]:
    """The spec, or why there is none."""
    try:
        return describe(config, "tiny"), ""
    except UnsupportedError as error:
        return None, str(error)
