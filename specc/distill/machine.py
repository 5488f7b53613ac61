"""The device and number formats a distillation computes with."""

import time

import torch
from torch.nn import functional

from specc.distill.options import DistillOptions
from specc.errors import OptionError


def torch_device(options: DistillOptions) -> torch.device:
    """The device asked for, with the threads asked for. Raises OptionError when torch has no such device."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device: cuda, but this torch sees no CUDA device; use --device cpu")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return torch.device(options.device)


def fastest_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the device multiplies it faster than fp32, measured on one product; else fp32."""
    if device.type == "cuda":
        return torch.bfloat16
    times = {dtype: _seconds(dtype) for dtype in (torch.float32, torch.bfloat16)}
    return min(times, key=lambda dtype: times[dtype])


def _seconds(dtype: torch.dtype) -> float:
    x, weight = torch.ones(64, 576, dtype=dtype), torch.ones(3072, 576, dtype=dtype)
    functional.linear(x, weight)
    laps = []
    for _ in range(5):
        started = time.perf_counter()
        functional.linear(x, weight)
        laps.append(time.perf_counter() - started)
    return min(laps)
