"""Hugging Face transformers: plain, and with prompt lookup as its assistant."""

from time import perf_counter
from typing import Any

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

from specc.bench.peers.base import PeerAnswer, PeerSetup, timed_answer
from specc.bench.peers.checkpoint_folder import write_checkpoint_folder
from specc.bench.peers.conversions import converted

LOOKUP_TOKENS = 10  # its documentation's example
_DTYPES = {"int8": "bfloat16", "fp16": "bfloat16", "fp32": "float32"}  # nothing narrower runs on a CPU as it comes


def load(setup: PeerSetup) -> "Transformers":
    """Write the checkpoint as a Hugging Face folder if need be, and load it."""
    return Transformers(setup)


class Transformers:
    """A `Peer`."""

    modes = ("plain", "prompt lookup")

    def __init__(self, setup: PeerSetup) -> None:
        torch.set_num_threads(setup.threads)
        transformers.logging.set_verbosity_error()
        folder = converted(
            setup.cache, setup.model, "checkpoint", lambda path: write_checkpoint_folder(setup.model, path)
        )
        self.precision = _DTYPES[setup.width]
        self._end_ids = list(setup.end_ids) or None
        dtype = getattr(torch, self.precision)
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        tokens, streamer = torch.tensor([prompt]), _Timer()
        options: dict[str, Any] = {"prompt_lookup_num_tokens": LOOKUP_TOKENS} if mode != "plain" else {}
        begin = perf_counter()
        with torch.inference_mode():
            output = self._model.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                eos_token_id=self._end_ids,
                pad_token_id=0,
                streamer=streamer,
                **options,
            )
        end = perf_counter()
        return timed_answer(streamer.first or end, begin, end, output[0, len(prompt) :].tolist())


class _Timer(BaseStreamer):  # type: ignore[misc]  # its types are not looked at
    """Notes when the first token comes; the prompt comes before it."""

    def __init__(self) -> None:
        self.first = 0.0
        self._prompt_seen = False

    def put(self, value: object) -> None:
        if self._prompt_seen:
            self.first = self.first or perf_counter()
        self._prompt_seen = True

    def end(self) -> None:
        """Nothing is held back."""
