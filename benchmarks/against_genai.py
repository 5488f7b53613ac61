"""Plain decoding against onnxruntime-genai, same checkpoint, 8 bits, one thread, in turn; the prompt's time left out.

`pip install onnxruntime-genai==0.18.* "torch==2.13.*" transformers accelerate`, then
`python benchmarks/against_genai.py BUNDLE MODEL`: MODEL is the checkpoint BUNDLE was compiled from. The peer's model is
built by its own builder into a temporary folder, from the same dequantised weights.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from safetensors.numpy import save_file
from timing import interleaved, paired_ratio, spread

from specc.checkpoint import open_checkpoint
from specc_runtime import Engine, SamplingParams

PROMPT_TOKENS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("model")
    parser.add_argument("--precision", default="int8", choices=("int8", "fp32"))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=12)
    asked = parser.parse_args()
    prompt = np.random.default_rng(0).integers(100, 40000, PROMPT_TOKENS).tolist()
    with tempfile.TemporaryDirectory() as folder:
        peer = _peer(Path(folder), asked.model, asked.precision, prompt, asked.tokens)
        times = interleaved({"specc": _ours(asked.bundle, prompt, asked.tokens), "genai": peer}, asked.repeats)
    for name, values in times.items():
        print(f"{name:>6}: {spread(values)} ms a token, {1e3 / median(values):.0f} tokens/s")
    print(f"specc / genai: {paired_ratio(times['specc'], times['genai'])} (below 1: specc is faster)")


def _ours(bundle: str, prompt: list[int], tokens: int):  # type: ignore[no-untyped-def]
    """Plain greedy decoding, seconds a token after the first."""
    engine = Engine.load(bundle, threads=1)
    params = SamplingParams(max_new_tokens=tokens + 1, ignore_eos=True)

    def run() -> float:
        engine.forget()
        ids = iter(engine.generate(prompt, params, plain=True))
        next(ids)
        start = time.perf_counter()
        made = sum(1 for _ in ids)
        return (time.perf_counter() - start) / made

    return run


def _peer(folder: Path, model: str, precision: str, prompt: list[int], tokens: int):  # type: ignore[no-untyped-def]
    """The peer's greedy loop over a model its own builder made, seconds a token after the first."""
    import onnxruntime_genai as genai

    checkpoint, built = folder / "checkpoint", folder / "built"
    _write_checkpoint(checkpoint, model)
    build = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(checkpoint), "-o", str(built)]
    subprocess.run([*build, "-p", precision, "-e", "cpu"], check=True, capture_output=True)
    config = json.loads((built / "genai_config.json").read_text())
    config["model"]["decoder"]["session_options"] |= {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    (built / "genai_config.json").write_text(json.dumps(config))
    loaded = genai.Model(str(built))

    def run() -> float:
        params = genai.GeneratorParams(loaded)
        params.set_search_options(max_length=2048, do_sample=False, min_length=2048)
        generator = genai.Generator(loaded, params)
        generator.append_tokens(prompt)
        generator.generate_next_token()
        start = time.perf_counter()
        for _ in range(tokens):
            generator.generate_next_token()
        return (time.perf_counter() - start) / tokens

    return run


def _write_checkpoint(folder: Path, model: str) -> None:
    """The checkpoint as a Hugging Face folder, values as specc reads them."""
    folder.mkdir()
    checkpoint = open_checkpoint(model)
    weights = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in checkpoint.weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(dict(checkpoint.config)))
    if checkpoint.tokenizer is not None:
        (folder / "tokenizer.json").write_text(checkpoint.tokenizer.json)
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


if __name__ == "__main__":
    main()
