from dataclasses import replace

import pytest

from specc_runtime.errors import EngineError, OptionError
from specc_runtime.manifest import Program, StateSpec
from specc_runtime.selection import (
    check_served,
    coarse_caches,
    find_round,
    recompute_program,
    stepping_program,
    usable_programs,
)
from tests.support.manifests import small_manifest
from tests.support.refusals import refuses

MANIFEST = small_manifest()
VERIFY, PREFILL, DRAFT = MANIFEST.programs


def round_of(gamma: int, *options: str) -> Program:
    return replace(DRAFT, id=f"{gamma}{options}", kind="round", width=gamma + 1, options=options)


def test_programs_with_unknown_requirements_are_left_out() -> None:
    programs = (replace(VERIFY, requires=("a",)), replace(DRAFT, requires=("a", "b")), PREFILL)
    manifest = replace(MANIFEST, programs=programs)
    assert usable_programs(manifest, {"a"}.__contains__) == (programs[0], PREFILL)
    assert usable_programs(manifest, {"a", "b"}.__contains__) == programs


def test_a_stepping_program_is_chosen_by_kind_owner_and_width() -> None:
    wide, narrow = replace(VERIFY, id="wide", max_width=64), replace(VERIFY, id="fixed", width=4, max_width=512)
    assert stepping_program((PREFILL, VERIFY, wide, narrow, DRAFT), "verifier") is wide
    assert stepping_program(MANIFEST.programs, "draft") is DRAFT
    with pytest.raises(EngineError, match="no usable draft program of open width for 'other'"):
        stepping_program(MANIFEST.programs, "other")


def test_a_round_must_serve_every_option() -> None:
    greedy, sampled = round_of(4, "greedy"), round_of(4, "greedy", "temperature", "top_k")
    rounds = (greedy, sampled, round_of(2, "greedy"))
    assert find_round(rounds, "draft", 4, {"greedy"}) is greedy
    assert find_round(rounds, "draft", 4, {"temperature", "top_k"}) is sampled
    assert find_round(rounds, "draft", 4, {"temperature", "penalties"}) is None
    assert find_round(rounds, "draft", 3, {"greedy"}) is None
    assert find_round(rounds, "other", 4, {"greedy"}) is None


def test_an_option_that_nothing_serves_is_named() -> None:
    check_served("draft", {"greedy", "penalties"}, {"greedy"})
    with refuses(OptionError, "'draft' serves logprobs, penalties", "leave it out"):
        check_served("draft", {"greedy"}, {"penalties", "greedy", "logprobs"})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_only_the_verifiers_keys_and_values_between_rounds_are_coarse(dtype: str) -> None:
    def holding(owner: str, role: str, dtype: str) -> Program:
        return replace(VERIFY, state=(StateSpec("past", "present", owner, role, dtype, (1, 1, 20, 4)),))

    fine = (
        holding("verifier", "layers.0.key", "float32"),
        holding("draft", "layers.0.key", dtype),
        holding("verifier", "features", dtype),
    )
    assert coarse_caches(fine) is None
    assert coarse_caches((*fine, holding("verifier", "layers.0.value", dtype))) == dtype


def test_what_recomputes_is_chosen_by_kind_and_width() -> None:
    wide, fixed = replace(VERIFY, kind="recompute", id="wide", max_width=64), replace(VERIFY, kind="recompute", width=4)
    narrow = replace(wide, id="narrow", max_width=2)
    assert recompute_program((*MANIFEST.programs, fixed)) is None
    assert recompute_program((*MANIFEST.programs, fixed, narrow, wide)) is wide
