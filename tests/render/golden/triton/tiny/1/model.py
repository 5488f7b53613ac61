"""tiny on Triton's Python backend: each request is answered in as many responses as it has rounds.

The last response of a text carries its summary. Options come as request parameters, those that are no single value
(stop_strings, logit_bias, lists of ids) as JSON text. An engine generates one text at a time, so requests to an
instance wait for each other; a cancelled request ends with the round it is in.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from specc_runtime import Engine, Generation, OptionError, RequestError, SamplingParams, SpeccError, TokenizerError

WAYS = ("drafter", "gamma", "plain")
OPTIONS = {field.name for field in fields(SamplingParams)} - {"logits_processor"}  # a function can't be sent
TEXTS = ("acceptance", "drafter")


class CancelledError(Exception):
    """Nobody waits for the answer any more."""


class TritonPythonModel:
    """What the Python backend calls."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the bundle that config.pbtxt names."""
        parameters = json.loads(args["model_config"])["parameters"]
        settings = {name: value["string_value"] for name, value in parameters.items()}
        folder = Path(__file__).resolve().parent / settings["bundle"]
        threads = int(settings["threads"]) if settings["threads"] else None
        try:
            self._engine = Engine.load(folder, threads=threads, fused=settings["fused"] == "true")
        except SpeccError as error:
            raise pb_utils.TritonModelException(str(error)) from None
        self._has_text = self._engine.manifest.tokenizer is not None

    def execute(self, requests: Sequence[Any]) -> None:
        """Answer `requests` one after the other through their response senders."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._answer(request, sender)
            except Exception as error:
                failure = pb_utils.InferenceResponse(error=_triton_error(error))
                sender.send(failure, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _answer(self, request: Any, sender: Any) -> None:
        options = _options(request.parameters())
        way = {name: options.pop(name) for name in WAYS if name in options}
        params = SamplingParams(**options)
        text: list[str] = []
        streamer = text.append if self._has_text else None
        samples = self._engine.generate_samples(_prompt(request), params, streamer=streamer, **way)
        for sample, generation in enumerate(samples):
            self._stream(generation, sample, text, sender)
            last = sample == params.n - 1
            flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0
            sender.send(self._response(sample, [], text, _summary(generation)), flags=flags)

    def _stream(self, generation: Generation, sample: int, text: list[str], sender: Any) -> None:
        """A response for each round of one text."""
        given = 0
        for _ in generation:
            if sender.is_cancelled():
                generation.close()
                raise CancelledError
            ids = generation.ids[given:]
            if ids:  # the first id of a round brings all of them
                given += len(ids)
                sender.send(self._response(sample, ids, text))

    def _response(self, sample: int, ids: list[int], text: list[str], summary: str | None = None) -> Any:
        """A response with `ids` and the text that has become final, which is taken out of `text`."""
        outputs = [_tensor("sample", [sample], np.int32)]
        if ids:
            outputs.append(_tensor("output_ids", ids, np.int64))
        if self._has_text:
            outputs.append(_tensor("text_output", ["".join(text).encode()], np.object_))
            text.clear()
        if summary is not None:
            outputs.append(_tensor("summary", [summary.encode()], np.object_))
        return pb_utils.InferenceResponse(output_tensors=outputs)


def _prompt(request: Any) -> str | np.ndarray:
    """The one prompt of a request, as text or ids."""
    given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    if len(given) != 1:
        raise RequestError("a request has one prompt: give text_input or input_ids, not both")
    ((name, value),) = given.items()
    if name == "input_ids":
        return value.reshape(-1)
    try:
        return bytes(value.reshape(-1)[0]).decode()
    except (UnicodeDecodeError, IndexError):
        raise RequestError("text_input holds no UTF-8 text") from None


def _options(parameters: str) -> dict[str, Any]:
    """Request parameters as options of SamplingParams, drafter, gamma and plain; Triton's own are left out."""
    options = {}
    for name, value in json.loads(parameters or "{}").items():
        if name.startswith("triton_"):
            continue
        if name not in OPTIONS and name not in WAYS:
            raise OptionError(f"unknown parameter {name!r}; known: {', '.join(sorted([*OPTIONS, *WAYS]))}")
        options[name] = value if name in TEXTS or not isinstance(value, str) else _value(name, value)
    return options


def _value(name: str, text: str) -> Any:
    """What JSON `text` says; a text that is no JSON stands for itself, and so does a single stop string."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if name == "stop_strings":
        return value if isinstance(value, list) else text
    if name == "logit_bias" and isinstance(value, dict):
        return {int(token) if token.isdecimal() else token: bias for token, bias in value.items()}
    return value


def _summary(generation: Generation) -> str:
    """How one text went, as JSON."""
    record = {
        "finish_reason": generation.finish_reason,
        "prompt_tokens": generation.prompt_tokens,
        "seed": generation.seed,
        "stats": generation.stats.as_dict(),
    }
    if generation.logprobs is not None:
        record["logprobs"] = [entry._asdict() for entry in generation.logprobs]
    return json.dumps(record)


def _tensor(name: str, values: Sequence[object], dtype: Any) -> Any:
    return pb_utils.Tensor(name, np.array(values, dtype))


def _triton_error(error: Exception) -> Any:
    codes = pb_utils.TritonError
    if isinstance(error, CancelledError):
        return codes("the request was cancelled", codes.CANCELLED)
    if isinstance(error, RequestError | TokenizerError):
        return codes(str(error), codes.INVALID_ARG)
    if not isinstance(error, SpeccError):
        pb_utils.Logger.log_error(f"unexpected {type(error).__name__}: {error}")
    return codes(f"{type(error).__name__}: {error}", codes.INTERNAL)
