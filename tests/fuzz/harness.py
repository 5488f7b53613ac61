"""What the fuzzers share: `python -m tests.fuzz.fuzz_NAME CORPUS [libFuzzer options]`."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris


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
