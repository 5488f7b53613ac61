import pytest

from specc.errors import OptionError
from specc.options import PARTS, PRESETS, Precision, PrecisionPolicy, parse_precision

CPU = ("fp32", "int8")
AMPERE = ("fp32", "tf32", "bf16", "fp16", "int8")
TURING = ("fp32", "fp16", "int8")


def parts(policy: str, target: tuple[str, ...], checkpoint: str) -> str:
    return " ".join(parse_precision(policy).resolve(target, checkpoint).parts().values())


@pytest.mark.parametrize(
    ("policy", "target", "checkpoint", "expected"),
    [  # attention mlp head kv embedding draft
        ("reference", AMPERE, "bf16", "fp32 fp32 fp32 fp32 fp32 fp32"),
        ("balanced", CPU, "fp32", "fp32 fp32 fp32 fp32 fp32 int8"),
        ("balanced", CPU, "bf16", "fp32 bf16 fp32 fp32 bf16 int8"),
        ("balanced", AMPERE, "bf16", "bf16 bf16 fp32 bf16 bf16 int8"),
        ("balanced", AMPERE, "fp16", "fp16 fp16 fp32 fp16 fp16 int8"),
        ("balanced", AMPERE, "fp32", "bf16 fp32 fp32 bf16 fp32 int8"),
        ("balanced", TURING, "bf16", "fp16 bf16 fp32 fp16 bf16 int8"),
        ("int8", CPU, "fp32", "int8 int8 int8 fp32 fp32 int8"),
        ("int8", AMPERE, "bf16", "int8 int8 int8 bf16 bf16 int8"),
        ("int8,head=fp32", CPU, "fp32", "int8 int8 fp32 fp32 fp32 int8"),
        ("attention=fp16,mlp=int8,head=fp32,draft=int8", CPU, "fp32", "fp16 int8 fp32 fp32 fp32 int8"),
        (" balanced , kv = fp16 ", CPU, "fp32", "fp32 fp32 fp32 fp16 fp32 int8"),
        ("balanced", CPU, "fp8", "fp32 fp32 fp32 fp32 fp32 int8"),
    ],
)
def test_policy_resolves(policy: str, target: tuple[str, ...], checkpoint: str, expected: str) -> None:
    assert parts(policy, target, checkpoint) == expected


def test_caches_take_a_16_bit_type_that_the_backend_can_hold() -> None:
    def kv(text: str, state_dtypes: tuple[str, ...]) -> str:
        return parse_precision(text).resolve(AMPERE, "bf16", state_dtypes).kv

    assert kv("balanced", ("fp32", "bf16", "fp16")) == "bf16"
    assert kv("balanced", ("fp32", "fp16")) == "fp16"
    assert kv("balanced", ("fp32",)) == "fp32"
    assert kv("balanced,kv=bf16", ("fp32", "fp16")) == "bf16"  # the user's word, for the backend to refuse


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_sets_every_part(preset: str) -> None:
    assert tuple(PRESETS[preset]) == PARTS


@pytest.mark.parametrize("text", ["reference", "int8", "int8,head=fp32", "balanced,kv=fp16,draft=fp32"])
def test_name_reads_back_as_the_policy(text: str) -> None:
    policy = parse_precision(text)
    assert policy.name == text
    assert parse_precision(policy.name) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("balnced", "unknown preset 'balnced'; did you mean 'balanced'? known: balanced, int8, reference"),
        ("", "unknown preset ''"),
        ("fp8", "'fp8' is a dtype, not a preset; write PART=fp8 (PART: attention, mlp, draft)"),
        ("int8,heads=fp32", "unknown part 'heads'; did you mean 'head'?"),
        ("head=fp64", "precision of head: unknown dtype 'fp64'; did you mean"),
        ("kv=int8", "precision: kv is not built in int8; known: fp32, fp16, bf16"),
        ("attention=int4", "precision: attention is not built in int4; known: fp32, fp16, bf16, fp8, int8"),
        ("draft=int4", "precision: draft is not built in int4"),
        ("head=fp8", "precision: head is not built in fp8"),
        ("mlp=w8a8", "precision: mlp is not built in w8a8"),
        ("embedding=int8", "precision: embedding is not built in int8"),
        ("int8,head=fp32,head=int8", "'head' is set twice"),
        ("int8,fp32", "'fp32' is no assignment; write PART=DTYPE"),
        ("head=fp32,int8", "'int8' is no assignment"),
    ],
)
def test_bad_policy_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_precision(text)
    assert message in str(caught.value)


def test_quantised_verifier_is_told_from_a_quantised_drafter() -> None:
    def resolved(text: str) -> Precision:
        return parse_precision(text).resolve(CPU, "fp32")

    assert not resolved("balanced").verifier_is_quantised
    assert resolved("reference,head=int8").verifier_is_quantised


def test_the_default_is_exact() -> None:
    assert PrecisionPolicy().name == "reference"
    assert PrecisionPolicy().resolve(CPU, "bf16").dtype_of("mlp") == "fp32"
