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
)
