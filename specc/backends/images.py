"""Base images of the hosts that programs run on, and how a container gets at an accelerator."""

from typing import NamedTuple


class Image(NamedTuple):
    """name: with a tag that stays what it is. source: the address that lists it."""

    name: str
    source: str


PYTHON = Image("python:3.12-slim", "https://hub.docker.com/_/python")
CUDA = Image("nvidia/cuda:13.0.1-runtime-ubuntu24.04", "https://hub.docker.com/r/nvidia/cuda/tags")
CUDA_WITH_CUDNN = Image("nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04", CUDA.source)
ROCM = Image("rocm/dev-ubuntu-24.04:7.2.4-complete", "https://hub.docker.com/r/rocm/dev-ubuntu-24.04/tags")

# Options of `docker run`.
NVIDIA_DEVICES = ("--gpus all",)
AMD_DEVICES = ("--device /dev/kfd", "--device /dev/dri", "--group-add video")
TPU_DEVICES = ("--privileged",)  # TPUs are passed through to privileged containers only
