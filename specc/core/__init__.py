"""The core graph: the vocabulary every model is written in and every backend starts from.

Standard ONNX ops of opset 24, and model-local functions of domain `specc` with standard-op bodies. A backend that has
something better for a function lowers its calls; every other backend inlines them. `oracle` runs any core graph with
onnx's own reference evaluator.
"""

DOMAIN = "specc"
OPSET = 24
IR_VERSION = 13
