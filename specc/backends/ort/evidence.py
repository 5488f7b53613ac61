"""What was run on ONNX Runtime, and where."""

from specc.backends.record import Evidence

EVIDENCE = (
    Evidence(
        did="run",
        what="tiny models of every family, chained programs and rounds, against exact laws and plain decoding",
        where="AMD EPYC (AVX512-VNNI)",
        command="make test",
    ),
    Evidence(
        did="run",
        what="SmolLM2-135M-Instruct, `reference`: greedy tokens against transformers",
        where="AMD EPYC (AVX512-VNNI)",
        command="python -m pytest tests/smollm2/test_greedy.py",
        result="identical, 3 prompts x 64 tokens",
    ),
    Evidence(
        did="run",
        what="SmolLM2-135M-Instruct, `int8`, n-gram drafts of 1, 2 and 4",
        where="AMD EPYC (AVX512-VNNI)",
        command="DRAFT=ngram make demo",
    ),
    Evidence(
        did="run",
        what="SmolLM2-135M-Instruct, `int8`: plain decoding against onnxruntime-genai 0.18",
        where="AMD EPYC (AVX512-VNNI)",
        command="python benchmarks/against_genai.py BUNDLE MODEL",
        result="0.90 of its time a token",
    ),
    Evidence(
        did="checked",
        what="tiny models in the form for NVIDIA GPUs, by ONNX Runtime's CPU kernels; its engine on that provider, "
        "and with onnxruntime-gpu 1.31.1 without a driver",
        where="AMD EPYC, no GPU",
        command="python -m pytest tests/backends/ort/test_cuda.py tests/runtime/engines/test_ort_cuda.py",
        result="1e-4 in fp32; in fp16 within twice the error of numpy with 16-bit rounding; the fallback is refused",
    ),
    Evidence(
        did="checked",
        what="SmolLM2-135M-Instruct, the verifier in the form for NVIDIA GPUs, in fp32 by ONNX Runtime's CPU kernels",
        where="AMD EPYC, no GPU",
        command="python -m pytest -m slow tests/smollm2/test_tensorrt_form.py",
        result="greedy tokens of the CPU's bundle up to 200, or to a top-2 margin below 1e-3",
    ),
)
