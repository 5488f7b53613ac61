"""One engine, built in a process of its own: run by file, with a job's folder for an argument; see `building`.

TensorRT-RTX orders an engine's tensors by the addresses they have while it compiles. So this program does nothing that
differs from run to run before it compiles: addresses are not randomised, one thread compiles, hashes are not salted.
It imports nothing of specc. A job is `job.json` and `graph.onnx`; `engine` is left, or `errors.json`.
"""

import ctypes
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ADDRESSES_AS_THEY_ARE = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>
CURRENT = 0xFFFFFFFF
SALT = "PYTHONHASHSEED"


def main(folder: str) -> None:
    """Build the job in `folder`, with addresses that are the same in every run where the system allows it."""
    _fix_addresses()
    os.chdir(folder)
    errors: list[str] = []
    plan = _build(json.loads(Path("job.json").read_text()), errors)
    if plan is None:
        Path("errors.json").write_text(json.dumps(errors))
    else:
        Path("engine").write_bytes(memoryview(plan))


def _fix_addresses() -> None:
    """Start this program anew if its addresses are random. A container may forbid it: it then goes on as it is."""
    personality = getattr(ctypes.CDLL(None), "personality", None)
    if personality is None:
        return
    now = personality(CURRENT)
    if now & ADDRESSES_AS_THEY_ARE and os.environ.get(SALT) == "0":
        return
    os.environ[SALT] = "0"
    if personality(now | ADDRESSES_AS_THEY_ARE) != -1 and personality(CURRENT) & ADDRESSES_AS_THEY_ARE:
        os.execv(sys.executable, [sys.executable, *sys.argv])


def _build(job: dict[str, Any], errors: list[str]) -> Any:
    """The engine's bytes, or None and what the compiler said in `errors`."""
    trt = import_module("tensorrt_rtx")

    class Log(trt.ILogger):  # type: ignore[misc, name-defined]  # a class of a module that is imported here
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                errors.append(message)

    log = Log()
    builder = trt.Builder(log)
    builder.max_threads = 1
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file("graph.onnx"):
        errors.insert(0, parser.get_error(0).desc())
        return None
    return builder.build_serialized_network(network, _config(trt, builder, job))


def _config(trt: Any, builder: Any, job: dict[str, Any]) -> Any:
    """Products of fp32 stay fp32: no TF32."""
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.num_compute_capabilities = len(job["capabilities"])
    for index, capability in enumerate(job["capabilities"]):
        config.set_compute_capability(getattr(trt.ComputeCapability, capability), index)
    for shapes in job["profiles"]:
        profile = builder.create_optimization_profile()
        for tensor, shape in shapes.items():
            profile.set_shape(tensor, shape, shape, shape)
        config.add_optimization_profile(profile)
    return config


if __name__ == "__main__":
    main(sys.argv[1])
