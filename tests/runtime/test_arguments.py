import numpy as np
import pytest

from specc_runtime.arguments import check_kinds, prompt_ids
from specc_runtime.controller import FixedGamma
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.errors import ContextError, OptionError, RequestError
from specc_runtime.params import SamplingParams


@pytest.mark.parametrize(
    "prompt",
    [
        [1.5, 2], [True, False], ["a"], None, [None], {1, 2}, [[1], [2, 3]], [[1, 2]], [2**70], b"ab", 7,
        np.float32([1]),
    ],
)  # fmt: skip
def test_what_is_no_list_of_ids_is_refused(prompt):
    with pytest.raises(RequestError, match="whole numbers"):
        prompt_ids(prompt, known=10, context=4)


@pytest.mark.parametrize("prompt", [[], (), np.zeros(0, np.int64)])
def test_an_empty_prompt_is_called_empty(prompt):
    with pytest.raises(RequestError, match="empty"):
        prompt_ids(prompt, known=10, context=4)


@pytest.mark.parametrize("prompt", [[-1], [3, 10], [2**63]])
def test_unknown_ids_are_named(prompt):
    with pytest.raises(RequestError, match=r"0 \.\.\. 9"):
        prompt_ids(prompt, known=10, context=4)


def test_a_prompt_longer_than_the_context_names_both_numbers():
    with pytest.raises(ContextError, match=r"5 tokens.* 4"):
        prompt_ids([1] * 5, known=10, context=4)


@pytest.mark.parametrize("prompt", [[1, 2], (1, 2), np.array([1, 2], np.uint8), range(1, 3)])
def test_ids_of_any_integer_kind_are_taken(prompt):
    ids = prompt_ids(prompt, known=10, context=4)
    assert ids.dtype == np.int64
    assert ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("params", "drafter", "gamma", "streamer", "named"),
    [
        ({}, None, None, None, "params"),
        (SamplingParams(), 5, None, None, "drafter"),
        (SamplingParams(), None, 1.5, None, "gamma"),
        (SamplingParams(), None, [2], None, "gamma"),
        (SamplingParams(), None, True, None, "gamma"),
        (SamplingParams(), None, None, 5, "streamer"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(params, drafter, gamma, streamer, named):
    with pytest.raises(OptionError, match=f"^{named} is"):
        check_kinds(params, drafter, gamma, streamer)


def test_arguments_of_every_right_kind_pass():
    for gamma in (None, 0, np.int64(3), "auto", FixedGamma(2)):
        check_kinds(SamplingParams(), NoDrafter(), gamma, print)
    check_kinds(SamplingParams(), "ngram", None, None)
