"""What was run on XLA, and where."""

from specc.backends.record import Evidence

EVIDENCE = (
    Evidence(
        did="run",
        what="every op of the table on onnx's node tests; tiny models of every family against their core graphs",
        where="AMD EPYC (AVX512-VNNI)",
        command="python -m pytest tests/backends/xla",
        result="largest logit error below 1e-4",
    ),
    Evidence(
        did="run",
        what="acceptance enumerated, tables and a two-layer model against exact laws, host-driven and fused",
        where="AMD EPYC (AVX512-VNNI)",
        command="python -m pytest tests/conformance/test_xla.py tests/core/functions",
    ),
)
