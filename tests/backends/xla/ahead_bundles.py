"""Tiny bundles compiled for accelerators that are not here, and what holds of every executable."""

import math
from pathlib import Path

import numpy as np

from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import Manifest, StateSpec
from tests.support.tiny_models import compiled

GAMMA = 3
ROWS = 128  # a multiple of a tile's columns: of other numbers a TPU's compiler pads the caches


def built(model: Path, output: Path, target: str, **more: object) -> Manifest:
    """A bundle with whole rounds, drafts by the model's first layers; fp32 unless `more` says otherwise."""
    given = {"gammas": (GAMMA,), "target": target, "backend": "xla", "context": ROWS - GAMMA - 1, "fuse": True}
    compiled(model, output, "slice:2", **given | more)
    return open_bundle(output, "hashes").manifest


def check_executables(manifest: Manifest, bundle: Path, made_for: set[str]) -> None:
    """Every program is built, writes all its caches in place and fits; who may load it is said."""
    for program in manifest.programs:
        made = program.executable
        assert program.built
        assert made is not None
        assert made.sizes["alias"] == sum(state_bytes(state, program.devices) for state in program.state)
        assert made.sizes["headroom"] > 0
        assert set(made.made_for) == made_for
        assert (bundle / made.file).stat().st_size > 10_000


def state_bytes(state: StateSpec, devices: int) -> int:
    """Of fp32 state, on each of the devices that share it."""
    return math.prod(state.shape) * np.dtype(state.dtype).itemsize // (devices if state.cut is not None else 1)
