"""What `Engine.generate` is given, checked before anything depends on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specc_runtime.engines.base import Tokens
from specc_runtime.errors import ContextError, OptionError, RequestError
from specc_runtime.params import SamplingParams


def prompt_ids(prompt: Sequence[int] | Tokens, known: int, context: int) -> Tokens:
    """The prompt as int64 `[n]`. known: ids are below it. context: most tokens a prompt may have.

    Raises RequestError (no list of known ids, or an empty one) or ContextError (too long).
    """
    try:
        given = np.asarray(prompt)
    except (ValueError, OverflowError):  # ragged lists; numbers beyond any integer
        given = np.empty((0, 0))
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise RequestError("the prompt is neither text nor a list of whole numbers: give a str, or token ids")
    if not given.size:
        raise RequestError("the prompt is empty: give text or at least one token id")
    if not 0 <= int(given.min()) <= int(given.max()) < known:
        raise RequestError(f"the prompt holds ids {given.min()} ... {given.max()}: the bundle's are 0 ... {known - 1}")
    if len(given) > context:
        raise ContextError(
            f"the prompt has {len(given)} tokens, the bundle's context is {context}: shorten it, or compile with a "
            "larger --context"
        )
    return given.astype(np.int64)


def check_kinds(params: Any, drafter: Any, gamma: Any, streamer: Any) -> None:
    """Raises OptionError when an argument is of a kind that could only fail later."""
    if not isinstance(params, SamplingParams):
        raise OptionError(f"params is {type(params).__name__}: give SamplingParams(...)")
    if not (drafter is None or isinstance(drafter, str) or callable(getattr(drafter, "propose", None))):
        raise OptionError(f"drafter is {drafter!r}: give a drafter's key or a Drafter")
    known_gamma = gamma is None or isinstance(gamma, str | int | np.integer) or callable(getattr(gamma, "choose", None))
    if isinstance(gamma, bool) or not known_gamma:
        raise OptionError(f'gamma is {gamma!r}: it is a whole number, "auto" or a Controller')
    if streamer is not None and not callable(streamer):
        raise OptionError(f"streamer is {streamer!r}: give a function that takes a piece of text")
