import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import specc

ROOT = Path(__file__).parents[2]


def build_wheel(root: Path, folder: Path) -> zipfile.ZipFile:
    (path,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build_wheel(ROOT, tmp_path_factory.mktemp("toolchain"))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build_wheel(ROOT / "runtime", tmp_path_factory.mktemp("runtime"))


def contents(wheel: zipfile.ZipFile, folder: str) -> dict[str, bytes]:
    return {name: wheel.read(name) for name in wheel.namelist() if name.startswith(folder)}


def metadata(wheel: zipfile.ZipFile) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return wheel.read(name).decode()


def test_both_wheels_hold_the_same_runtime(toolchain: zipfile.ZipFile, runtime: zipfile.ZipFile) -> None:
    files = contents(runtime, "specc_runtime/")
    assert "specc_runtime/engine.py" in files
    assert files == contents(toolchain, "specc_runtime/")
    assert {name.split("/")[0].partition("-")[0] for name in runtime.namelist()} == {"specc_runtime"}


def test_both_wheels_have_one_version_and_the_licence(toolchain: zipfile.ZipFile, runtime: zipfile.ZipFile) -> None:
    for wheel in (toolchain, runtime):
        assert f"\nVersion: {specc.__version__}\n" in metadata(wheel)
        assert "\nLicense-Expression: Apache-2.0\n" in metadata(wheel)
        (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", ["targets", "templates", "calibration"])
def test_data_is_shipped(toolchain: zipfile.ZipFile, folder: str) -> None:
    source = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir()}
    shipped = contents(toolchain, f"specc/_data/{folder}/")
    assert {name.rpartition("/")[2]: data for name, data in shipped.items()} == source


def test_both_packages_are_typed(toolchain: zipfile.ZipFile) -> None:
    assert {"specc/py.typed", "specc_runtime/py.typed"} <= set(toolchain.namelist())


def test_wheel_holds_nothing_else(toolchain: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in toolchain.namelist()}
    assert tops == {"specc", "specc_runtime", f"specc-{specc.__version__}.dist-info"}
    assert not [name for name in toolchain.namelist() if "__pycache__" in name or name.endswith(".pyc")]


def test_data_is_found_inside_a_zipped_wheel(toolchain: zipfile.ZipFile, tmp_path: Path) -> None:
    code = (
        "import specc, specc.targets, specc.resources as r\n"
        "assert '.whl' in specc.__file__, specc.__file__\n"
        "print(specc.targets.load_target('cpu').kind, len(r.default_calibration_text()) > 1000)"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {toolchain.filename!r})\n{code}"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert result.stdout == "cpu True\n", result.stderr


def test_wheel_from_sdist_is_the_same(toolchain: zipfile.ZipFile, tmp_path: Path) -> None:
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    rebuilt = build_wheel(tmp_path / f"specc-{specc.__version__}", tmp_path / "dist")
    assert contents(rebuilt, "specc") == contents(toolchain, "specc")


def test_runtime_needs_numpy_and_one_engine_only() -> None:
    project = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text())["project"]
    assert sorted(need.partition(">")[0] for need in project["dependencies"]) == ["numpy", "onnxruntime"]


def test_runtime_needs_are_the_toolchains_too() -> None:
    runtime, toolchain = (
        set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"])
        for root in (ROOT / "runtime", ROOT)
    )
    assert runtime <= toolchain
