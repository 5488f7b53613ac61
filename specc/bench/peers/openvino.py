"""OpenVINO GenAI from GGUF: plain, and with its prompt lookup."""

from time import perf_counter

import numpy as np
import openvino
import openvino_genai
from gguf import GGMLQuantizationType as Form

from specc.bench.peers.base import PeerAnswer, PeerSetup, timed_answer
from specc.bench.peers.conversions import converted
from specc.bench.peers.gguf_form import gguf_source, write_gguf

LOOKUP = {"num_assistant_tokens": 5, "max_ngram_size": 3}
_FORMS = {"int8": Form.Q8_0, "fp16": Form.F16, "fp32": Form.F16}  # it reads no F32 GGUF


def load(setup: PeerSetup) -> "OpenVino":
    """Convert the GGUF if need be, and load it once for each mode."""
    return OpenVino(setup)


class OpenVino:
    """A `Peer`."""

    modes = ("plain", "prompt lookup")

    def __init__(self, setup: PeerSetup) -> None:
        form, source = _FORMS[setup.width], gguf_source(setup.model)
        file = converted(setup.cache, setup.model, f"{form.name}.gguf", lambda path: write_gguf(source, form, path))
        self.precision = form.name
        self._end_ids = set(setup.end_ids)
        threads = {"INFERENCE_NUM_THREADS": setup.threads}
        self._pipelines = {
            "plain": openvino_genai.LLMPipeline(str(file), "CPU", **threads),
            "prompt lookup": openvino_genai.LLMPipeline(str(file), "CPU", prompt_lookup=True, **threads),
        }

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        config = openvino_genai.GenerationConfig(max_new_tokens=max_new_tokens, do_sample=False)
        config.stop_token_ids, config.ignore_eos = self._end_ids, not self._end_ids
        if mode != "plain":
            for name, value in LOOKUP.items():
                setattr(config, name, value)
        tokens = np.array([prompt], np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(tokens), openvino.Tensor(np.ones_like(tokens)))
        streamer = _Timer()
        begin = perf_counter()
        ids = list(self._pipelines[mode].generate(inputs, config, streamer).tokens[0])
        end = perf_counter()
        return timed_answer(streamer.first or end, begin, end, ids)


class _Timer(openvino_genai.StreamerBase):  # type: ignore[misc]  # its types are not looked at
    """Notes when the first token comes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0.0

    def write(self, token: object) -> openvino_genai.StreamingStatus:
        self.first = self.first or perf_counter()
        return openvino_genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Nothing is held back."""
