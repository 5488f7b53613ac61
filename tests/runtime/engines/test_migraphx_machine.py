from pathlib import Path

import pytest

from specc_runtime.engines import migraphx_machine
from specc_runtime.engines.migraphx_machine import Machine, architecture, this_machine


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (90402, "gfx942"),
        (90010, "gfx90a"),
        (90500, "gfx950"),
        (90008, "gfx908"),
        (110000, "gfx1100"),
        (110501, "gfx1151"),
    ],
)
def test_the_drivers_number_is_the_compilers_name(number: int, name: str) -> None:
    assert architecture(number) == name


def test_gpus_in_the_drivers_order_and_no_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, text in {
        "0": "cpu_cores_count 96\ngfx_target_version 0\n",
        "2": "gfx_target_version 90010\nwave_front_size 64\nunique_id 7\nname with words\n",
        "10": "gfx_target_version 110000\nwave_front_size 32\n",
    }.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "properties").write_text(text)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "properties").mkdir()  # can't be read
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", tmp_path)
    assert this_machine("2.15.0") == Machine("2.15.0", ("gfx90a", "gfx1100"), (64, 32))


@pytest.mark.parametrize(
    ("rocr", "hip", "expected"),
    [
        ("", "", ["gfx90a", "gfx942", "gfx950"]),
        ("2,0", "", ["gfx950", "gfx90a"]),
        ("", "1", ["gfx942"]),
        ("2,1", "1", ["gfx942"]),
        ("", "7", []),
        ("GPU-abc", "", ["gfx90a", "gfx942", "gfx950"]),
    ],
)
def test_the_environment_hides_gpus(
    rocr: str, hip: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node, number in enumerate((90010, 90402, 90500)):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "properties").write_text(f"gfx_target_version {number}\n")
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", tmp_path)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", rocr)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", hip)
    assert list(this_machine("").gpus) == expected


def test_a_machine_without_the_driver_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", tmp_path / "nothing")
    assert this_machine("") == Machine("", (), ())


HERE = Machine("2.15.1.dev", ("gfx942",), (64,))


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("migraphx>=2.15", True),
        ("migraphx>=2.9", True),
        ("migraphx>=2.16", False),
        ("migraphx==2.15.1", True),
        ("migraphx==2.15.0", False),
        ("gfx942", True),
        ("gfx94", False),
        ("ort>=1.32", False),
        ("migraphx~=2.15", False),
    ],
)
def test_requirements(requirement: str, met: bool) -> None:
    assert HERE.has(requirement) == met
    assert HERE.lacks([requirement]) == [] or not met


def test_what_is_lacking_is_said_with_what_was_found() -> None:
    assert HERE.lacks(["gfx90a", "migraphx>=3"]) == ["gfx90a (found gfx942)", "migraphx>=3 (found MIGraphX 2.15.1.dev)"]
    nothing = Machine("", (), ())
    assert nothing.lacks(["gfx90a", "migraphx>=3"]) == ["gfx90a (found no AMD GPU)", "migraphx>=3 (found no MIGraphX)"]
