"""What a host needs to run programs through JAX."""

from collections.abc import Mapping

from specc.backends.images import AMD_DEVICES, NVIDIA_DEVICES, PYTHON, ROCM, TPU_DEVICES, Image
from specc.backends.record import Container
from specc.backends.xla.machine import platform_of
from specc.targets import Target

INSTALLATION = "https://docs.jax.dev/en/latest/installation.html"
_WITH = "flatbuffers>=25"  # exports are read with it


# The extra of JAX that brings a platform's plugin, the image it wants, how a container gets at the devices.
_PLATFORMS: Mapping[str, tuple[str, Image, tuple[str, ...]]] = {
    "cpu": ("", PYTHON, ()),
    "tpu": ("[tpu]", PYTHON, TPU_DEVICES),
    "cuda": ("[cuda13]", PYTHON, NVIDIA_DEVICES),
    "rocm": ("[rocm7-local]", ROCM, AMD_DEVICES),
}


def container(target: Target, _built: bool) -> Container:
    """JAX with the plugin for the target's devices: NVIDIA's brings CUDA, AMD's wants ROCm there."""
    platform = platform_of(target)
    extra, image, devices = _PLATFORMS[platform]
    return Container(
        image.name,
        (image.source, INSTALLATION),
        (f"jax{extra}", _WITH),
        devices=devices,
        on_triton=platform in ("cpu", "cuda"),
    )
