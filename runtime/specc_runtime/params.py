"""What a request may ask of a generation, in Hugging Face's words, checked when it is written down."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError

LogitsProcessor = Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[Any]]

MAX_SAMPLES = 1 << 16
"""Largest `n`: the sample index is a 16-bit field of the random key."""

OPTIONS = frozenset(
    {
        "greedy", "temperature", "top_k", "top_p", "min_p", "penalties", "logit_bias", "token_mask", "min_new_tokens",
        "logits_processor", "logprobs", "token_acceptance",
    }
)  # fmt: skip
"""Every name `SamplingParams.required_options` can return: what a program with host-side accept serves."""


_WHOLE: Mapping[str, tuple[int, int | None]] = {
    "max_new_tokens": (1, None),
    "min_new_tokens": (0, None),
    "top_k": (0, None),
    "logprobs": (0, None),
    "n": (1, MAX_SAMPLES),
    "seed": (0, 2**64 - 1),
    "verify_every": (0, None),
}
_OPTIONAL = frozenset({"logprobs", "seed"})
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 1e5),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (1e-3, 1e3),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
}


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Options of one request; each is checked here, and token ids against a model by `validate_vocabulary`.

    max_new_tokens, min_new_tokens: bounds on emitted tokens; below the minimum every id that ends a text is banned.
    do_sample: None means temperature > 0; False decodes greedily whatever the temperature.
    temperature: 0 (greedy), or 1e-5 ... 1e5. top_k: 0 is off. top_p: (0, 1]. min_p: [0, 1], relative to the likeliest.
    repetition_penalty: 1e-3 ... 1e3, over prompt and output. frequency_penalty, presence_penalty: -2 ... 2, the output.
    logit_bias: token id -> value added to its logit. allowed_token_ids: None allows all; forbidden_token_ids wins.
    logits_processor: f(ids so far int64 [n], logits float32 [vocab_rows]) -> logits of that shape; it must be a pure
    function of its arguments, because drafted positions that are later rejected pass through it too.
    stop_strings: end the text before the earliest of them. stop_token_ids: end it like an EOS, also with ignore_eos.
    logprobs: None is off; k adds each emitted token's log-probability and the k likeliest alternatives.
    n: samples per request. seed: 64 bits; None draws a new one each time. acceptance: how drafted tokens are accepted.
    verify_every: committed tokens between full verification points, 0 for none.
    """

    max_new_tokens: int = 256
    do_sample: bool | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_new_tokens: int = 0
    allowed_token_ids: Collection[int] | None = None
    forbidden_token_ids: Collection[int] = ()
    logits_processor: LogitsProcessor | None = None
    stop_strings: tuple[str, ...] | str = ()
    stop_token_ids: Collection[int] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    n: int = 1
    seed: int | None = None
    acceptance: Literal["block", "token"] = "block"
    verify_every: int = 0

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        for name in ("forbidden_token_ids", "stop_token_ids"):
            self._set(name, _token_ids(name, getattr(self, name)))
        if self.allowed_token_ids is not None:
            self._set("allowed_token_ids", _token_ids("allowed_token_ids", self.allowed_token_ids))
            if not set(self.allowed_token_ids) - set(self.forbidden_token_ids):
                raise OptionError("allowed_token_ids leaves no token once forbidden_token_ids are taken out: allow one")
        self._set("logit_bias", _bias(self.logit_bias))
        self._set("stop_strings", _stop_strings(self.stop_strings))

    @property
    def greedy(self) -> bool:
        """Whether every token is the likeliest one."""
        return self.temperature == 0 or self.do_sample is False

    @property
    def penalised(self) -> bool:
        """Whether a token's logit depends on the tokens before it."""
        return self.repetition_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0

    def end_ids(self, eos_ids: Iterable[int]) -> frozenset[int]:
        """Ids that end a text: stop_token_ids, and the model's `eos_ids` unless they are ignored."""
        return frozenset(self.stop_token_ids) | frozenset(() if self.ignore_eos else eos_ids)

    def required_options(self) -> frozenset[str]:
        """Names, out of `OPTIONS`, that a program must list in its manifest entry to serve this request."""
        sampled = not self.greedy
        asked = {
            "greedy": not sampled,
            "temperature": sampled,
            "top_k": sampled and self.top_k > 0,
            "top_p": sampled and self.top_p < 1,
            "min_p": sampled and self.min_p > 0,
            "penalties": self.penalised,
            "logit_bias": bool(self.logit_bias),
            "token_mask": self.allowed_token_ids is not None or bool(self.forbidden_token_ids),
            "min_new_tokens": self.min_new_tokens > 0,
            "logits_processor": self.logits_processor is not None,
            "logprobs": self.logprobs is not None,
            "token_acceptance": sampled and self.acceptance == "token",
        }
        return frozenset(name for name, wanted in asked.items() if wanted)

    def validate_vocabulary(self, vocab_rows: int) -> None:
        """Check every token id, and `logprobs`, against a vocabulary of `vocab_rows`; OptionError names the first."""
        named: dict[str, Iterable[int]] = {
            "logit_bias": self.logit_bias,
            "allowed_token_ids": self.allowed_token_ids or (),
            "forbidden_token_ids": self.forbidden_token_ids,
            "stop_token_ids": self.stop_token_ids,
        }
        for name, ids in named.items():
            outside = max(ids, default=0)
            if outside >= vocab_rows:
                raise OptionError(f"{name} holds id {outside}: the verifier's ids are 0 ... {vocab_rows - 1}")
        if self.logprobs is not None and self.logprobs > vocab_rows:
            raise OptionError(f"logprobs is {self.logprobs}: the verifier has {vocab_rows} tokens, ask for fewer")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                self._set(name, _whole(name, value, least, most))
        for name, (low, high) in _NUMBERS.items():
            self._set(name, _number(name, getattr(self, name), low, high))
        if self.min_new_tokens > self.max_new_tokens:
            raise OptionError(f"min_new_tokens is {self.min_new_tokens} with max_new_tokens {self.max_new_tokens}")
        if 0 < self.temperature < 1e-5:
            raise OptionError(f"temperature is {self.temperature}: the least is 1e-05; 0 decodes greedily")
        if self.top_p == 0:
            raise OptionError("top_p is 0: it lies above 0; for the likeliest token alone set temperature to 0")

    def _check_choices(self) -> None:
        if self.acceptance not in ("block", "token"):
            raise OptionError(f"acceptance is {self.acceptance!r}: it is 'block' or 'token'")
        if not isinstance(self.ignore_eos, bool):
            raise OptionError(f"ignore_eos is {self.ignore_eos!r}: it is True or False")
        if self.do_sample is not None and not isinstance(self.do_sample, bool):
            raise OptionError(f"do_sample is {self.do_sample!r}: it is True, False or None")
        if self.do_sample and self.temperature == 0:
            raise OptionError("do_sample is True with temperature 0: give a temperature above 0, 1.0 for the plain law")
        if self.logits_processor is not None and not callable(self.logits_processor):
            raise OptionError(
                f"logits_processor is {self.logits_processor!r}: it is a function (ids, logits) -> logits"
            )


def _whole(name: str, value: object, low: int, high: int | None = None) -> int:
    bounds = f"from {low} up" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise OptionError(f"{name} is {value!r}: it is a whole number {bounds}")
    if value < low or (high is not None and value > high):
        raise OptionError(f"{name} is {value}: it lies {bounds}")
    return int(value)


def _number(name: str, value: object, low: float, high: float) -> float:
    bounds = f"from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise OptionError(f"{name} is {value!r}: it is a number {bounds}")
    number = float(value)
    if not low <= number <= high:
        raise OptionError(f"{name} is {value}: it lies {bounds}")
    return number


def _token_ids(name: str, ids: object) -> tuple[int, ...]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise OptionError(f"{name} is {ids!r}: it is a list of token ids")
    return tuple(sorted({_whole(f"an id in {name}", token, 0) for token in ids}))


def _bias(bias: object) -> dict[int, float]:
    if not isinstance(bias, Mapping):
        raise OptionError(f"logit_bias is {bias!r}: it maps token ids to numbers")
    return {
        _whole("an id in logit_bias", token, 0): _number(f"logit_bias of id {token}", value, -1e30, 1e30)
        for token, value in bias.items()
    }


def _stop_strings(strings: object) -> tuple[str, ...]:
    listed = (strings,) if isinstance(strings, str) else strings
    if not isinstance(listed, Iterable):
        raise OptionError(f"stop_strings is {strings!r}: it is a string or a list of strings")
    texts = tuple(listed)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise OptionError(f"stop_strings holds {text!r}: each one is a string of at least one character")
    return texts
