"""An NVIDIA GPU as XLA's compiler wants it described: GpuTargetConfigProto in text form."""

from specc.backends.xla.hardware import Gpu
from specc.targets import Target

RESERVED = 1024  # bytes of a multiprocessor's shared memory that a block can't have
OWN_CODE = 9  # from this generation on, the fastest instructions are in code for it alone ("sm_90a")

# Of every generation from 8 on (CUDA C++ programming guide, technical specifications per compute capability).
_LIMITS = """\
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  shared_memory_per_block: 49152
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
"""


def compute_capability(target: Target) -> tuple[int, int]:
    """Major and minor number: (8, 0) of "sm80"."""
    number = int(target.architecture.removeprefix("sm"))
    return number // 10, number % 10


def cuda_description(target: Target, gpu: Gpu) -> str:
    """The text for `target`. No cuDNN is named: no program has an op of its."""
    major, minor = compute_capability(target)
    own_code = "feature_extension: ACCELERATED_FEATURES" if major >= OWN_CODE else ""
    return (
        "gpu_device_info {\n"
        f"{_LIMITS}"
        f"  cuda_compute_capability {{ major: {major} minor: {minor} {own_code} }}\n"
        f"  core_count: {gpu.multiprocessors}\n"
        f"  fpus_per_core: {gpu.fp32_lanes}\n"
        f"  clock_rate_ghz: {gpu.clock_ghz}\n"
        f"  l2_cache_size: {gpu.l2_bytes}\n"
        f"  shared_memory_per_core: {gpu.shared_memory_bytes}\n"
        f"  shared_memory_per_block_optin: {gpu.shared_memory_bytes - RESERVED}\n"
        f"  device_memory_size: {gpu.memory_bytes}\n"
        f"  memory_bandwidth: {int((target.bandwidth_gb_s or 0) * 1e9)}\n"
        "}\n"
        'platform_name: "CUDA"\n'
        f'device_description_str: "{target.title}"\n'
    )
