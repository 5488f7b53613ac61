"""How much memory it takes to run a bundle: `python -m specc_runtime.resident_memory BUNDLE` prints it, in bytes.

What counts is the largest resident set of a process that does nothing else and uses the whole context: Python, numpy,
the engine with its own copies of the weights, what it reads of the weights file, caches, working memory, the tokenizer.
"""

import sys
from pathlib import Path

import numpy as np

from specc_runtime.bundle import open_bundle
from specc_runtime.engine import Engine
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Programs
from specc_runtime.errors import SpeccError
from specc_runtime.manifest import VERIFIER, Manifest
from specc_runtime.params import SamplingParams

CHUNKS = 4  # fed to the verifier, so that much of an embedding table that is mapped from its file gets read
NEW_TOKENS = 16
_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Largest resident set of this process so far, in bytes.

    Linux counts into `ru_maxrss` what the process that started this one held: there the kernel's own page is read.
    """
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines())
        if "VmHWM" in fields:
            return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # not there on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def use_all(path: str | Path) -> None:
    """Load the bundle at `path` and use all the memory that a text up to the end of the context would.

    Raises BundleError, or one of its kinds.
    """
    bundle = open_bundle(path)
    manifest, programs = bundle.manifest, load_programs(bundle)
    programs.reset()  # writes every cache row: memory that was never written is not there yet
    _feed_last_chunks(programs, manifest)
    params = SamplingParams(max_new_tokens=NEW_TOKENS, ignore_eos=True)
    gamma = manifest.gamma or max(manifest.gammas, default=0)
    generation = Engine(bundle, programs).generate([0], params, gamma=gamma).finish()
    if manifest.tokenizer is not None:
        _ = generation.text


def _feed_last_chunks(programs: Programs, manifest: Manifest) -> None:
    """Each model's widest chunk at the end of its context: what attends to most rows needs most working memory."""
    contexts = {VERIFIER: manifest.context}
    for key, info in manifest.drafters.items():
        if info.model is not None:
            contexts[key] = min(info.model.context, manifest.context)
    known = manifest.tokenizer.token_count if manifest.tokenizer is not None else manifest.verifier.vocab_rows
    for owner, context in contexts.items():
        width = min(programs.max_width(owner), context)
        ids = np.linspace(0, known - 1, CHUNKS * width).astype(np.int64)
        if owner == VERIFIER:
            for chunk in range(CHUNKS):
                programs.verify(ids[chunk::CHUNKS], context - width, 1)
        else:
            programs.catchup(owner, ids[::CHUNKS], context - width)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m specc_runtime.resident_memory BUNDLE")
    try:
        use_all(sys.argv[1])
    except SpeccError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{peak_bytes()}\n")
