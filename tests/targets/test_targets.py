from pathlib import Path

import pytest

from specc.errors import TargetError
from specc.targets import Target, known_targets, load_target, parse_target

GOOD = """
name = "toy"
title = "Toy"
vendor = "Nobody"
kind = "gpu"
architecture = "t1"
dtypes = ["fp32", "int8"]
backends = ["ort"]
default_backend = "ort"
memory_gib = 8
tops_int8 = 4.5

[sources]
memory_gib = "https://example.com/toy"
tops_int8 = "https://example.com/toy"
"""
ISSUE_TARGETS = (
    "cpu a100 h100 h200 b200 l4 rtx2080 rtx3090 rtx4090 rtx5090 dgx-spark jetson-orin thor "
    "mi250x mi300x mi355x rx7900xtx tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu7x"
).split()
BACKENDS = {"ort", "tensorrt", "xla", "migraphx"}


@pytest.mark.parametrize("name", known_targets())
def test_shipped_target_is_consistent(name: str) -> None:
    target = load_target(name)
    assert set(target.backends) <= BACKENDS
    assert "fp32" in target.dtypes
    assert target.tops or target.notes, "a target without rates says why"
    rates = target.tops
    for narrow, wide in [("int8", "bf16"), ("fp8", "fp16"), ("bf16", "fp32"), ("int4", "int8"), ("fp4", "fp8")]:
        if narrow in rates and wide in rates:
            assert rates[narrow] >= rates[wide], f"{narrow} is slower than {wide}"


def test_what_its_compiler_is_run_with() -> None:
    asked = (
        'environment = ["A_1=x,y"]\nexhaustive_tune = true\nin_place_caches = true\nwavefront = 64\n'
        'tactic_sources = ["JIT_CONVOLUTIONS"]\naux_streams = 2\ntiming_cache = false\nkind ='
    )
    text = GOOD.replace("kind =", asked).replace("[sources]", '[sources]\nwavefront = "https://example.com/toy"')
    target = parse_target(text, "toy", "toy.toml")
    assert (target.environment, target.wavefront) == (("A_1=x,y",), 64)
    assert (target.exhaustive_tune, target.in_place_caches) == (True, True)
    assert (target.tactic_sources, target.aux_streams, target.timing_cache) == (("JIT_CONVOLUTIONS",), 2, False)
    plain = parse_target(GOOD, "toy", "toy.toml")
    assert (plain.tactic_sources, plain.aux_streams, plain.timing_cache) == ((), 0, True)


def test_every_target_asked_for_is_shipped() -> None:
    assert set(ISSUE_TARGETS) <= set(known_targets())


def test_all_values_are_read() -> None:
    assert parse_target(GOOD, "toy", "toy.toml") == Target(
        name="toy",
        title="Toy",
        vendor="Nobody",
        kind="gpu",
        architecture="t1",
        dtypes=("fp32", "int8"),
        backends=("ort",),
        default_backend="ort",
        memory_gib=8.0,
        tops={"int8": 4.5},
        sources={"memory_gib": "https://example.com/toy", "tops_int8": "https://example.com/toy"},
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_gib = 8", "memory_gb = 8", "unknown key 'memory_gb'; did you mean 'memory_gib'?"),
        ("memory_gib = 8", 'memory_gib = "8"', "'memory_gib' must be a number above 0, found '8'"),
        ("memory_gib = 8", "memory_gib = true", "'memory_gib' must be a number above 0, found True"),
        ("memory_gib = 8", "memory_gib = -8", "'memory_gib' must be a number above 0, found -8"),
        ("memory_gib = 8", "memory_gib = inf", "'memory_gib' must be a number above 0, found inf"),
        ("memory_gib = 8", "bandwidth_gb_s = 8", "figure 'bandwidth_gb_s' has no source"),
        ("memory_gib = 8\n", "", "source of 'memory_gib', but the file states no such figure"),
        ('memory_gib = "https', 'memory_gib = "ftp', "must be an https:// address"),
        ('vendor = "Nobody"\n', "", "'vendor' must be a text, found None"),
        ('dtypes = ["fp32", "int8"]', 'dtypes = "fp32"', "'dtypes' must be a list of names"),
        ('["fp32", "int8"]', '["fp32", "int7"]', "unknown dtype 'int7'; did you mean 'int8'?"),
        ('["fp32", "int8"]', '["fp32"]', "states tops_int8, but 'dtypes' lacks 'int8'"),
        ('kind = "gpu"', 'kind = "npu"', "unknown kind 'npu'"),
        ('default_backend = "ort"', 'default_backend = "xla"', "'default_backend' 'xla' is not among 'backends'"),
        ('name = "toy"', 'name = "tie"', "'name' is 'tie', but the file is called 'toy'"),
        ("kind =", "kind", "is not TOML"),
        ("kind =", "exhaustive_tune = 1\nkind =", "'exhaustive_tune' must be true or false, found 1"),
        ("kind =", 'environment = ["A=1; rm"]\nkind =', "'environment' holds 'A=1; rm', which is not NAME=VALUE"),
        ("kind =", 'environment = "A=1"\nkind =', "'environment' must be a list of names, found 'A=1'"),
        ("[sources]", "sources = 3\n[other]", "unknown key 'other'"),
        ("kind =", 'slices = ["2x"]\nkind =', "'slices' holds '2x', which is no product of chips along axes"),
        ("kind =", "xla = 1\nkind =", "'xla' must be a table of key = value, found 1"),
    ],
)
def test_broken_file_is_refused_with_its_fault(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(TargetError) as caught:
        parse_target(GOOD.replace(old, new, 1), "toy", "toy.toml")
    assert "target file toy.toml" in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_unknown_target_names_the_nearest() -> None:
    with pytest.raises(TargetError, match="unknown target 'h10'; did you mean 'h100'"):
        load_target("h10")


def test_bottomless_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text("notes = " + "[" * 100_000)
    with pytest.raises(TargetError, match=r"target file .*toy\.toml is not TOML"):
        load_target(str(path))


def test_own_file_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(GOOD)
    assert load_target(str(path)).title == "Toy"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_unreadable_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "toy.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TargetError, match=r"target file .*toy\.toml can't be read"):
        load_target(str(path))
