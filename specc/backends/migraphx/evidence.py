"""What was run of MIGraphX's programs, and where: not on MIGraphX yet."""

from specc.backends.record import Evidence

EVIDENCE = (
    Evidence(
        did="checked",
        what="tiny models: the ONNX of every program against core graphs, exact laws and plain decoding",
        where="ONNX Runtime on a CPU, in MIGraphX's place",
        command="python -m pytest tests/legalize/migraphx tests/backends/migraphx",
        result="1e-4 in fp32; in fp16 within twice the error of numpy with 16-bit rounding",
    ),
    Evidence(
        did="checked",
        what="tiny models: the build script and the runtime's engine, on a fake of MIGraphX with its documented calls",
        where="AMD EPYC, 2 cores, no GPU",
        command="python -m pytest tests/runtime/engines/test_migraphx.py",
        result="the ort bundle's text, greedy and by a seed, in rounds and in steps",
    ),
    Evidence(
        did="checked",
        what="SmolLM2-135M-Instruct, `reference`, rounds of 4 drafts by its first layers: the ort bundle's tokens",
        where="ONNX Runtime on a CPU, in MIGraphX's place",
        command="python -m pytest -m slow tests/smollm2/test_migraphx.py",
        result="identical, 2 prompts x 200 tokens; logits of up to 52 within 6e-5",
    ),
)
