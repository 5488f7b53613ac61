from dataclasses import replace

import pytest

from specc.cli.manifest_tables import print_executables, print_memory, print_speculation, speculation_verdict
from specc_runtime.manifest import DrafterInfo, Executable, Manifest, Speculation
from tests.support.manifests import small_manifest, with_program

MEASURED = Speculation((0.010, 0.012, 0.014, 0.016, 0.018), 0.0, (0.5, 0.3, 0.1, 0.0), draft_rate=1.0, tokens=64)


def manifest(gamma: int, measured: Speculation | None = MEASURED) -> Manifest:
    return replace(small_manifest(), gamma=gamma, drafters={"ngram": DrafterInfo("ngram", measured=measured)})


def test_executables_are_told_with_the_compilers_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    print_executables(small_manifest())
    assert capsys.readouterr().out == ""
    sizes = {"argument": 3 << 20, "temp": 5 << 10, "alias": 2 << 20, "code": 77, "headroom": 4 << 30}
    print_executables(with_program(executable=Executable("x.bin", {}, 12.34, sizes)))
    told = capsys.readouterr().out
    for text in ("3.0 MiB", "5.0 KiB", "2.0 MiB", "77", "4.0 GiB", "12.3 s"):
        assert text in told


def test_gain_is_told_with_its_reason() -> None:
    assert speculation_verdict(manifest(2)) == (
        "drafting pays: gamma 2 is the default "
        "(1.29x predicted: 1.80 tokens in a round that drafts, break-even 1.40)"
    )  # fmt: skip


def test_no_gain_is_told_plainly() -> None:
    useless = replace(MEASURED, acceptance=(0.1, 0.0, 0.0, 0.0))
    assert speculation_verdict(manifest(0, useless)) == (
        "drafting does not pay here, so plain decoding is the default: the best is gamma 2 "
        "(0.79x predicted: 1.10 tokens in a round that drafts, break-even 1.40)"
    )


def test_a_length_that_would_pay_is_named() -> None:
    """The bundle drafts 2 or 4; drafting 1 is what this drafter is good for."""
    short = replace(MEASURED, acceptance=(0.3, 0.0, 0.0, 0.0))
    assert speculation_verdict(manifest(0, short)).endswith(
        "the best is gamma 2 (0.93x predicted: 1.30 tokens in a round that drafts, break-even 1.40); "
        "gamma 1 would pay (1.08x): compile with --gamma 1"
    )


def test_a_drafter_is_called_by_what_it_was_made_from(capsys: pytest.CaptureFixture[str]) -> None:
    sliced = DrafterInfo("model", source="slice:4", measured=MEASURED)
    print_speculation(replace(manifest(2), drafters={"drafter": sliced}))
    assert "speculation, drafter drafter (slice:4): 64 tokens" in capsys.readouterr().out


def test_memory_is_told_where_it_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    print_memory(small_manifest())
    assert capsys.readouterr().out == ""
    print_memory(replace(small_manifest(), resident_bytes=3 * 2**20))
    told = capsys.readouterr().out
    assert told == (
        "resident memory to run it to the end of its context: 3.0 MiB, measured, Python and engine included\n"
    )


def test_what_was_not_measured_is_not_claimed() -> None:
    assert "not measured" in speculation_verdict(manifest(4, None))


def test_table_has_a_line_a_length(capsys: pytest.CaptureFixture[str]) -> None:
    print_speculation(manifest(2))
    out = capsys.readouterr().out
    assert "speculation, drafter ngram: 64 tokens decoded greedily" in out
    assert [line.split() for line in out.splitlines() if " ms " in line][3] == [
        "3",
        "16.00",
        "ms",
        "1.60",
        "1.90",
        "1.19x",
    ]
