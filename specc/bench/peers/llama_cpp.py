"""llama.cpp through llama-cpp-python: plain, and with its prompt lookup."""

from time import perf_counter

from gguf import GGMLQuantizationType as Form
from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from specc.bench.peers.base import PeerAnswer, PeerSetup, timed_answer
from specc.bench.peers.conversions import converted
from specc.bench.peers.gguf_form import gguf_source, write_gguf

LOOKUP_TOKENS = 2  # what its documentation advises on a machine without a GPU
_FORMS = {"int8": Form.Q8_0, "fp16": Form.F16, "fp32": Form.F32}


def load(setup: PeerSetup) -> "LlamaCpp":
    """Convert the GGUF if need be, and load it once for each mode; the weights are mapped, so held once."""
    return LlamaCpp(setup)


class LlamaCpp:
    """A `Peer`."""

    modes = ("plain", "prompt lookup")

    def __init__(self, setup: PeerSetup) -> None:
        form, source = _FORMS[setup.width], gguf_source(setup.model)
        file = converted(setup.cache, setup.model, f"{form.name}.gguf", lambda path: write_gguf(source, form, path))
        self.precision = form.name
        self._end_ids = set(setup.end_ids)
        shared = {"n_ctx": setup.context, "n_threads": setup.threads, "n_threads_batch": setup.threads}
        lookup = LlamaPromptLookupDecoding(num_pred_tokens=LOOKUP_TOKENS)
        self._models = {
            "plain": Llama(str(file), verbose=False, **shared),
            # It keeps every position's logits when it drafts, and has room for all of a prompt only if told so.
            "prompt lookup": Llama(str(file), verbose=False, draft_model=lookup, logits_all=True, **shared),
        }

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        model = self._models[mode]
        ids: list[int] = []
        model.reset()
        begin = first = perf_counter()
        for token in model.generate(prompt, temp=0.0, top_k=1):
            ids.append(token)
            if len(ids) == 1:
                first = perf_counter()
            if token in self._end_ids or len(ids) == max_new_tokens:
                break
        return timed_answer(first, begin, perf_counter(), ids)
