"""A loaded program as a function of arrays, and what every program that runs rounds is fed of a request."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specc_runtime.engines.base import RoundSampling
from specc_runtime.manifest import Program

Arrays = Mapping[str, NDArray[Any]]
"""By the names of a program's inputs or outputs."""


class Call(Protocol):
    """A loaded program, its state bound: arrays in by name, arrays out by name, valid until its next call."""

    @property
    def program(self) -> Program: ...

    def __call__(self, inputs: Arrays) -> Arrays: ...


def warping_inputs(sampling: RoundSampling) -> dict[str, NDArray[Any]]:
    """The warping as inputs of a round or loop: temperature, top_p, min_p f32[1], top_k i64[1]."""
    return {
        "temperature": np.array([sampling.temperature], np.float32),
        "top_k": np.array([sampling.top_k]),
        "top_p": np.array([sampling.top_p], np.float32),
        "min_p": np.array([sampling.min_p], np.float32),
    }
