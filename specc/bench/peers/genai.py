"""onnxruntime-genai: plain, and with its n-gram speculation, whose draft length adapts."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import onnxruntime_genai as genai

from specc.bench.peers.base import PeerAnswer, PeerSetup, timed_answer
from specc.bench.peers.checkpoint_folder import write_checkpoint_folder
from specc.bench.peers.conversions import converted
from specc.errors import BenchError

SPECULATION = {"ngram_size": 3, "max_draft_tokens": 8, "min_adaptive_k": 1}
_PRECISIONS = {"int8": "int8", "fp16": "fp32", "fp32": "fp32"}  # its builder makes no fp16 for the CPU


def load(setup: PeerSetup) -> "GenAi":
    """Build the model with its own builder if need be, and load it."""
    return GenAi(setup)


class GenAi:
    """A `Peer`."""

    modes = ("plain", "n-gram")

    def __init__(self, setup: PeerSetup) -> None:
        self.precision = _PRECISIONS[setup.width]
        form = f"genai-{self.precision}"
        folder = converted(setup.cache, setup.model, form, lambda path: _build(setup.model, self.precision, path))
        config = genai.Config(str(folder))
        threads = {"intra_op_num_threads": setup.threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": threads}}}))
        self._model = genai.Model(config)
        self._end_ids = set(setup.end_ids)
        self._context = setup.context

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        begin = first = perf_counter()
        params = genai.GeneratorParams(self._model)
        params.set_search_options(max_length=self._context, min_length=self._context, do_sample=False)
        if mode != "plain":
            params.set_search_options(min_length=0)  # it does not draft below a minimum length
            params.set_speculative_options(**SPECULATION)
        generator = genai.Generator(self._model, params)
        ids: list[int] = []
        generator.append_tokens(prompt)
        while len(ids) < max_new_tokens and not generator.is_done():
            generator.generate_next_token()
            ids.append(int(generator.get_next_tokens()[0]))
            if len(ids) == 1:
                first = perf_counter()
            if ids[-1] in self._end_ids:
                break
        return timed_answer(first, begin, perf_counter(), ids)


def _build(model: str, precision: str, output: Path) -> None:
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        checkpoint = Path(folder) / "checkpoint"
        write_checkpoint_folder(model, checkpoint)
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(checkpoint), "-o", str(output)]
        built = subprocess.run([*command, "-p", precision, "-e", "cpu"], check=False, capture_output=True, text=True)
    if built.returncode:
        reason = (built.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(f"onnxruntime-genai: its model builder failed ({reason})")
