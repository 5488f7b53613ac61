"""The request options that programs of this backend serve."""

from specc_runtime.params import OPTIONS

HOST_OPTIONS = tuple(sorted(OPTIONS))
ROUND_OPTIONS = ("greedy", "min_p", "temperature", "top_k", "top_p")
