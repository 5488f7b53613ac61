"""How many threads a bundle decodes fastest with on this machine."""

import os
import time
from statistics import median

import numpy as np

from specc.bundle.verifier_alone import verifier_alone
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.manifest import VERIFIER

STEPS = 12  # timed plain steps per candidate
GAIN = 0.95  # more threads must beat fewer by 5 %: they cost the rest of the machine


def measure_threads(bundle: Bundle) -> int:
    """The fastest of 1, 2, 4, ... and all cores at plain decoding; a tie goes to fewer threads."""
    best, best_time = 1, _step_time(bundle, 1)
    for threads in _candidates():
        elapsed = _step_time(bundle, threads)
        if elapsed < best_time * GAIN:
            best, best_time = threads, elapsed
    return best


def _candidates() -> list[int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    doubling = [2**i for i in range(1, cores.bit_length()) if 2**i <= cores]
    return sorted({*doubling, cores} - {1})


def _step_time(bundle: Bundle, threads: int) -> float:
    """Seconds of one plain step after a short prompt."""
    programs = load_programs(verifier_alone(bundle), threads=threads)
    prompt = np.zeros(min(64, programs.max_width(VERIFIER), bundle.manifest.context // 2), np.int64)
    programs.verify(prompt, 0, 1)
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        programs.verify(prompt[:1], len(prompt), 1)
        times.append(time.perf_counter() - start)
    return median(times)
