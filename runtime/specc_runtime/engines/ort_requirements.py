"""What programs of an ort bundle require of the engine, as their manifest says it."""

from collections.abc import Iterable

from specc_runtime.manifest import Program

CUDA_VERSION = (1, 31)
ON_CUDA = f"ort-cuda>={'.'.join(map(str, CUDA_VERSION))}"  # onnxruntime-gpu, every product on its CUDA provider


def needs_cuda(programs: Iterable[Program]) -> bool:
    """Whether they are for an NVIDIA GPU."""
    return any(ON_CUDA in program.requires for program in programs)
