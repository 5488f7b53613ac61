import math
from typing import Any

import numpy as np
import pytest

from specc_runtime.errors import OptionError
from specc_runtime.params import OPTIONS, SamplingParams


def test_the_defaults_decode_greedily() -> None:
    params = SamplingParams()
    assert params.greedy
    assert params.required_options() == {"greedy"}


@pytest.mark.parametrize(
    ("options", "greedy"),
    [
        ({"temperature": 0.7}, False),
        ({"temperature": 0.7, "do_sample": False}, True),
        ({"temperature": 0.7, "do_sample": True}, False),
        ({"do_sample": False}, True),
    ],
)
def test_do_sample_and_temperature(options: dict[str, Any], greedy: bool) -> None:
    assert SamplingParams(**options).greedy is greedy


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": math.nan}, {"temperature": math.inf}, {"temperature": -0.1}, {"temperature": 1e-6},
        {"temperature": "1"}, {"temperature": True}, {"temperature": None}, {"do_sample": True}, {"do_sample": 1},
        {"top_k": -1}, {"top_k": 2.0}, {"top_p": 0}, {"top_p": 1.01}, {"top_p": math.nan}, {"min_p": -0.1},
        {"min_p": 2}, {"repetition_penalty": 0}, {"repetition_penalty": -1}, {"frequency_penalty": 3},
        {"presence_penalty": math.nan},
        {"max_new_tokens": 0}, {"max_new_tokens": True}, {"max_new_tokens": 5, "min_new_tokens": 6},
        {"logit_bias": {1: math.inf}}, {"logit_bias": {-1: 0.0}}, {"logit_bias": {"a": 0.0}}, {"logit_bias": [1]},
        {"allowed_token_ids": ()}, {"allowed_token_ids": (3,), "forbidden_token_ids": (3,)}, {"allowed_token_ids": 3},
        {"forbidden_token_ids": (1.5,)}, {"forbidden_token_ids": "12"}, {"stop_token_ids": (-2,)},
        {"logits_processor": 3}, {"stop_strings": ("a", "")}, {"stop_strings": ""}, {"stop_strings": (1,)},
        {"stop_strings": 1}, {"ignore_eos": "no"}, {"logprobs": -1}, {"logprobs": True}, {"n": 0}, {"n": 65537},
        {"seed": -1}, {"seed": 2**64}, {"seed": 1.0}, {"acceptance": "all"}, {"verify_every": -1},
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused_in_one_line_with_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as raised:
        SamplingParams(**options)
    message = str(raised.value)
    assert any(name in message for name in options)
    assert "\n" not in message


def test_values_are_plain_python_however_they_came() -> None:
    params = SamplingParams(
        temperature=np.float64(0.5),
        top_k=np.int32(3),
        stop_strings="END",
        stop_token_ids=[7, 5, 7],
        logit_bias={np.int64(2): 1},
    )
    assert type(params.temperature) is float
    assert type(params.top_k) is int
    assert params.stop_strings == ("END",)
    assert params.stop_token_ids == (5, 7)
    assert params.logit_bias == {2: 1.0}


def test_a_callers_dictionary_is_copied() -> None:
    bias = {1: 2.0}
    params = SamplingParams(logit_bias=bias)
    bias[-5] = math.nan
    assert params.logit_bias == {1: 2.0}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"temperature": 1, "top_k": 4}, "top_k"),
        ({"temperature": 1, "top_p": 0.5}, "top_p"),
        ({"temperature": 1, "min_p": 0.5}, "min_p"),
        ({"temperature": 1, "acceptance": "token"}, "token_acceptance"),
        ({"repetition_penalty": 1.1}, "penalties"),
        ({"frequency_penalty": 0.1}, "penalties"),
        ({"presence_penalty": -0.1}, "penalties"),
        ({"logit_bias": {1: 1.0}}, "logit_bias"),
        ({"allowed_token_ids": (1,)}, "token_mask"),
        ({"forbidden_token_ids": (1,)}, "token_mask"),
        ({"min_new_tokens": 1}, "min_new_tokens"),
        ({"logits_processor": lambda ids, logits: logits}, "logits_processor"),
        ({"logprobs": 0}, "logprobs"),
    ],
)
def test_each_option_asks_for_a_program_that_serves_it(options: dict[str, Any], name: str) -> None:
    required = SamplingParams(**options).required_options()
    base = "temperature" if "temperature" in options else "greedy"
    assert required == {base, name}
    assert required <= OPTIONS


def test_a_greedy_request_does_not_ask_for_truncation() -> None:
    assert SamplingParams(top_k=5, top_p=0.5, min_p=0.1, acceptance="token").required_options() == {"greedy"}


@pytest.mark.parametrize("name", ["allowed_token_ids", "forbidden_token_ids", "stop_token_ids"])
def test_ids_are_checked_against_the_vocabulary(name: str) -> None:
    params = SamplingParams(**{name: (1, 10)})
    params.validate_vocabulary(11)
    with pytest.raises(OptionError, match=f"{name} holds id 10: the verifier's ids are 0 ... 9"):
        params.validate_vocabulary(10)


def test_bias_ids_and_logprobs_are_checked_against_the_vocabulary() -> None:
    with pytest.raises(OptionError, match="logit_bias holds id 10"):
        SamplingParams(logit_bias={10: 1.0}).validate_vocabulary(10)
    with pytest.raises(OptionError, match="logprobs is 11"):
        SamplingParams(logprobs=11).validate_vocabulary(10)


def test_what_ends_a_text() -> None:
    params = SamplingParams(stop_token_ids=(5,))
    assert params.end_ids((2, 3)) == {2, 3, 5}
    assert SamplingParams(stop_token_ids=(5,), ignore_eos=True).end_ids((2, 3)) == {5}
