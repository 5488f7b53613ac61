"""What was built by TensorRT-RTX and run by ONNX Runtime; on an NVIDIA GPU nothing yet."""

from specc.backends.record import Evidence

MACHINE = "AMD EPYC, 2 cores, no GPU"
MODEL = "SmolLM2-135M-Instruct with a trained 2-layer drafter, context 2048"

EVIDENCE = (
    Evidence(
        did="checked",
        what="tiny models: every emitted ONNX against the core graph, rounds against exact laws, by ONNX Runtime",
        where=MACHINE,
        command="python -m pytest tests/backends/tensorrt",
        result="1e-4 in fp32; in fp16 within twice the error of numpy with 16-bit rounding",
    ),
    Evidence(
        did="checked",
        what="tiny models: whole bundles by the runtime's engine, on fakes of TensorRT and CUDA",
        where=MACHINE,
        command="python -m pytest tests/runtime/engines/test_tensorrt.py",
        result="greedy text is that of plain decoding, chained and fused",
    ),
)
