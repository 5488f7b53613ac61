"""Whatever stops a compile, what stood at the output before still stands, and nothing else is left."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from specc.errors import CompileError
from specc_runtime.bundle import open_bundle
from specc_runtime.manifest_writing import manifest_json
from tests.support.refusals import refuses
from tests.support.tiny_models import TinyBundles, compiled

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
POINTS = {
    "lowering": "specc.bundle.staging.Staging.add_graph",
    "writing weights": "specc.bundle.weight_store._content",
    "writing graphs": "specc.bundle.weight_store.WeightStore.point_into_file",
    "measuring quality": "specc.assembly.quality.log_softmax",
    "hashing": "specc.bundle.staging._sha256",
    "writing the manifest": "specc.bundle.staging.manifest_json",
    "renaming": "specc.bundle.staging._move_into_place",
}
STOPS = [RuntimeError("stop"), KeyboardInterrupt()]


@pytest.fixture(params=["nothing before", "a bundle before"])
def output(request: pytest.FixtureRequest, tiny: TinyBundles, tmp_path: Path) -> Iterator[Path]:
    """Where a compile may be stopped: afterwards all must be as it was."""
    output = tmp_path / "out" / "bundle"
    if request.param == "a bundle before":
        compiled(tiny.model(), output, "ngram")
    before = contents(tmp_path)
    yield output
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
def test_an_exception_anywhere(
    point: str, stop: BaseException, output: Path, tiny: TinyBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(POINTS[point], raising(stop))
    with pytest.raises(type(stop)):
        compiled(tiny.model(), output, precision="int8", force=True)


@pytest.mark.parametrize("point", ["writing weights", "writing the manifest", "hashing"])
def test_a_full_disk(point: str, output: Path, tiny: TinyBundles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(POINTS[point], raising(FULL))
    with refuses(CompileError, output, "No space left on device", "free disk space"):
        compiled(tiny.model(), output, force=True)


def test_a_file_that_may_not_grow(output: Path, tiny: TinyBundles) -> None:
    """The operating system itself refuses to write beyond 64 KiB."""
    model, (soft, hard) = tiny.model(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with refuses(CompileError, output, "File too large"):
            compiled(model, output, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def raising(error: BaseException) -> object:
    def stop(*_: object, **__: object) -> None:
        raise error

    return stop


def test_a_kill_while_writing_leaves_the_old_bundle_and_the_next_compile_sweeps_up(
    tiny: TinyBundles, tmp_path: Path
) -> None:
    output = tmp_path / "bundle"
    compiled(tiny.model(), output, "ngram")
    before = contents(tmp_path)
    kill_while_writing(tiny.model(), output)
    left = [path for path in tmp_path.iterdir() if path != output]
    assert [path.name.startswith(".bundle.tmp-") for path in left] == [True]
    assert (left[0] / "weights.safetensors").exists()
    assert {path: content for path, content in contents(tmp_path).items() if ".tmp-" not in path} == before
    compiled(tiny.model(), output, force=True)
    assert list(tmp_path.iterdir()) == [output]
    assert "drafter" in open_bundle(output, verify="hashes").manifest.drafters


def kill_while_writing(model: Path, output: Path) -> None:
    """Compile in a process of its own that is killed once half of its weights are on the disk."""
    script = f"""
        import os, signal
        from pathlib import Path
        from specc.bundle import weight_store
        from tests.support.tiny_models import compiled

        content, written = weight_store._content, []

        def then_die(name, tensor):
            written.append(name)
            if len(written) == 10:
                os.kill(os.getpid(), signal.SIGKILL)
            return content(name, tensor)

        weight_store._content = then_die
        compiled(Path({str(model)!r}), Path({str(output)!r}), force=True)
    """
    checkout = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=checkout, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_kill_between_the_two_renames_puts_the_old_bundle_back(tiny: TinyBundles, tmp_path: Path) -> None:
    output = tmp_path / "bundle"
    compiled(tiny.model(), output, "ngram")
    old = manifest_json(open_bundle(output).manifest)
    output.rename(tmp_path / f".bundle.old-{dead_process()}")
    compiled(tiny.model(), tmp_path / f".bundle.tmp-{dead_process()}")
    with refuses(CompileError, output, "a bundle is there already", "--force"):
        compiled(tiny.model(), output)
    assert manifest_json(open_bundle(output, verify="hashes").manifest) == old
    assert list(tmp_path.iterdir()) == [output]


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
