"""The request options that programs serve: steps that the host accepts for, and whole rounds."""

from specc_runtime.params import OPTIONS

HOST_OPTIONS = tuple(sorted(OPTIONS))
ROUND_OPTIONS = ("greedy", "min_p", "temperature", "top_k", "top_p")
