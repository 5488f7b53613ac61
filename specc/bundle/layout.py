"""Where things lie in a bundle that only the compiler's own tools read."""

CORE_GRAPH = "core/{role}.onnx"  # structure of a core graph, its weights in the weights file
CORE_CONFIG = "core/verifier.config.json"  # the checkpoint's config.json, for a tiny twin of the same family
