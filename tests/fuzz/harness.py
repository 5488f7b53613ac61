"""What the fuzzers share: `python -m tests.fuzz.fuzz_NAME CORPUS [libFuzzer options]`."""

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris


def scratch_file(name: str) -> Path:
    """A path for the input of each run, in memory where there is such a folder: opening is most of a run's time."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None)) / name


def fuzz(one_input: Callable[[bytes], None], seeds: Iterable[bytes]) -> None:
    """Write the seeds into the corpus folder, then fuzz until libFuzzer's options say to stop. Never returns."""
    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds):
        (corpus / f"seed-{index}").write_bytes(seed)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


def check_refusal(error: Exception) -> None:
    """A refusal is one line."""
    if "\n" in str(error):
        raise AssertionError(f"more than one line: {error}") from error
