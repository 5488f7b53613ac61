"""What programs of an ort bundle require of the engine, as their manifest says it."""

from collections.abc import Iterable

from specc_runtime.manifest import Program

CUDA_VERSION = (1, 31)
_OLDEST = ".".join(map(str, CUDA_VERSION))
ON_CUDA = f"ort-cuda>={_OLDEST}"  # CUDA_PACKAGE, every product on its CUDA provider
CUDA_PACKAGE = f"onnxruntime-gpu[cuda,cudnn]>={_OLDEST}"  # from PyPI, with the libraries that the provider loads


def needs_cuda(programs: Iterable[Program]) -> bool:
    """Whether they are for an NVIDIA GPU."""
    return any(ON_CUDA in program.requires for program in programs)
