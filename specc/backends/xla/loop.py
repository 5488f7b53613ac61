"""A whole generation as one program: rounds until the text ends, the uniforms made on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from specc.backends.xla.program import FlatProgram
from specc.backends.xla.threefry import round_uniforms
from specc_runtime.manifest import TensorSpec

Value = Any
_WARPING = ("temperature", "top_k", "top_p", "min_p")


class _Text(NamedTuple):
    """What a round changes.

    ids: the text, i32[1, T + gamma + 1]. committed: how much of it stands, i32[]. counts: how many tokens each round
    emitted, i32[1, T]. rounds: how many there were, i32[]. ended: whether a stop was emitted, bool[].
    """

    ids: Value
    committed: Value
    counts: Value
    rounds: Value
    ended: Value
    state: tuple[Value, ...]


@dataclass(frozen=True)
class _Request:
    """What no round changes. given: values by the names of the program's inputs, batch first."""

    given: Mapping[str, Value]
    weights: Sequence[Value]

    def __getitem__(self, name: str) -> Value:
        return self.given[name][0]


def looped(round_: FlatProgram, gamma: int, text_rows: int, vocabulary: int) -> FlatProgram:
    """Rounds of a `limited` round program until a text ends.

    Inputs: text i32[1, T], of which the first `committed` i32[1] tokens are the text so far; end i32[1], at most T: how
    many it may become; stops bool[1, V]: ids that end it; seed u32[1, 2], sample u32[1]: keys of the uniforms;
    temperature, top_k, top_p and min_p as a round's. Outputs: text, and counts i32[1, T]: how many tokens each round
    emitted, 0 behind the last. Near the end rounds draft less, so that none passes it; what a round emitted behind a
    stop is left in the text, and counted. State and weights are the round's. T: text_rows. V: vocabulary.
    """
    text = TensorSpec("text", "int32", (1, text_rows))
    inputs = (
        text,
        TensorSpec("committed", "int32", (1,)),
        TensorSpec("end", "int32", (1,)),
        TensorSpec("stops", "bool", (1, vocabulary)),
        TensorSpec("seed", "uint32", (1, 2)),
        TensorSpec("sample", "uint32", (1,)),
        *(spec for spec in round_.inputs if spec.name in _WARPING),
    )
    outputs = (text, TensorSpec("counts", "int32", (1, text_rows)))

    def function(*arguments: Value) -> tuple[Value, ...]:
        given = {spec.name: value for spec, value in zip(inputs, arguments, strict=False)}
        state_and_weights = arguments[len(inputs) :]
        request = _Request(given, state_and_weights[len(round_.state) :])
        start = _Text(
            ids=jnp.pad(given["text"], ((0, 0), (0, gamma + 1))),  # the last round's ids, emitted or not
            committed=request["committed"],
            counts=jnp.zeros((1, text_rows), jnp.int32),
            rounds=jnp.int32(0),
            ended=jnp.bool_(False),
            state=tuple(state_and_weights[: len(round_.state)]),
        )
        done = lax.while_loop(
            lambda text: ~text.ended & (text.committed < request["end"]),
            lambda text: _one_round(round_, gamma, request, text),
            start,
        )
        return (done.ids[:, :text_rows], done.counts, *done.state)

    return FlatProgram(inputs, round_.state, round_.weights, outputs, function)


def _one_round(round_: FlatProgram, gamma: int, request: _Request, text: _Text) -> _Text:
    shapes = {spec.name: spec.shape for spec in round_.inputs}
    position = text.committed - int(shapes["tokens"][1])
    fed = {
        "tokens": lax.dynamic_slice(text.ids, (0, position), shapes["tokens"]),
        "position": position[None],
        "uniforms": round_uniforms(request["seed"], request["sample"], text.committed, gamma)[None],
        "limit": jnp.minimum(gamma, request["end"] - text.committed - 1)[None],
        **{name: request.given[name] for name in _WARPING},
    }
    ids, count, *state = round_.function(*(fed[spec.name] for spec in round_.inputs), *text.state, *request.weights)
    emitted = jnp.arange(gamma + 1) < count[0]
    return _Text(
        ids=lax.dynamic_update_slice(text.ids, ids.astype(jnp.int32), (0, text.committed)),
        committed=text.committed + count[0],
        counts=lax.dynamic_update_slice(text.counts, count[:, None].astype(jnp.int32), (0, text.rounds)),
        rounds=text.rounds + 1,
        ended=jnp.any(request["stops"][ids[0]] & emitted),
        state=tuple(state),
    )
