"""Compose a drafter, a verifier and acceptance into one graph that runs a whole round."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.building import Body, model, value
from specc.core.functions.accept import ACCEPTANCES, accept_functions
from specc.core.functions.sampling import draw, sampling_functions, warp, widen
from specc.core.initializers import initializer
from specc.core.inspection import static_shape
from specc.core.state_names import PAST, PRESENT
from specc.core.topology import CHAIN, TOPOLOGY, chain
from specc.passes.decoder_function import DecoderFunction, State, as_function
from specc.passes.head import HEAD, head_rows
from specc_runtime.manifest import FEATURES

I64, F32 = ir.DataType.INT64, ir.DataType.FLOAT
VERIFIER, DRAFTER = "verifier.", "drafter."  # owners, in the names of the round's caches


def fuse_round(
    verifier: ir.Model,
    drafter: ir.Model,
    gamma: int,
    *,
    acceptance: str = "block",
    head_ids: NDArray[np.integer[Any]] | None = None,
    limited: bool = False,
) -> ir.Model:
    """A round of `gamma` drafted tokens as one core graph; the two decoders, in core form, stay as they are.

    Inputs: tokens i64[B, W], the last W committed ones (`first_width`); position i64[B], index of the first of them in
    the text; uniforms f32[B, 2 gamma + 1] in [0, 1): gamma to draft with, gamma to accept with, one for the last token;
    temperature f32[B] (0: greedy), top_k i64[B], top_p f32[B], min_p f32[B], for both models; verifier.past.{cache} and
    drafter.past.{cache}. Outputs: ids i64[B, gamma + 1] and count i64[B], of which ids[:count] are emitted;
    verifier.present.{cache}, drafter.present.{cache}, and `between_steps`.
    The first draft step is W tokens wide and so fills the hole that a round leaves in the drafter.
    acceptance: "block" or "tokenwise". head_ids: full id of each row of a trimmed drafter head, ascending; None: row i
    is id i, and rows the verifier lacks are padding. limited: one more input after min_p, limit i64[B], 0 ... gamma: as
    if so many tokens were drafted.
    Raises ValueError: gamma below 1, an unknown acceptance, head_ids that do not fit, models that clash by name.
    """
    if gamma < 1 or acceptance not in ACCEPTANCES:
        raise ValueError(f"a round of gamma {gamma} and acceptance {acceptance!r}; known: {', '.join(ACCEPTANCES)}")
    weights: dict[str, ir.Value] = {}
    head = _head(drafter, head_rows(verifier), head_ids, weights)
    verify, draft = as_function(verifier, "verify_step", weights), as_function(drafter, "draft_step", weights)
    features = FEATURES in draft.caches()
    kept = f"{FEATURES}.{drafter.graph.name}"  # the verifier's name for the features that this drafter reads
    body, request = Body(), _request(_batch(verify), gamma, first_width(gamma, features=features), limited)
    verifier_past, drafter_past = _past(verify, VERIFIER), _past(draft, DRAFTER)
    verifier_past.pop(kept, None)
    *draws, judging = body.ops(
        "Split", request.uniforms, body.constant([1] * gamma + [gamma + 1]), outputs=gamma + 1, axis=1
    )

    drafting = _draft(body, request, draft, drafter_past, head, draws)
    p, left, (*between, drafter_present) = _verified(body, request, verify, verifier_past, drafting, kept)
    q = body.op("Concat", *drafting.laws, axis=1)
    drafted = body.op("Concat", *drafting.ids, axis=1)
    ids, count = body.call(ACCEPTANCES[acceptance](gamma, limited), drafted, p, q, judging, *request.limit)
    return model(
        "round",
        [*request.inputs(), *verifier_past.values(), *drafter_past.values()],
        [
            _typed(ids, "ids", [request.batch, gamma + 1]),
            _typed(count, "count", [request.batch]),
            *_named(left, VERIFIER + PRESENT),
            *_named(drafter_present, DRAFTER + PRESENT),
            *(v for step, state in enumerate(between, 1) for v in _named(state, _after(step))),
        ],
        body,
        initializers=weights.values(),
        functions=_merged(
            [verify.function, draft.function],
            verifier.functions.values(),
            drafter.functions.values(),
            sampling_functions(),
            accept_functions(acceptance, gamma, limited),
        ),
    )


def between_steps(cache: str, gamma: int) -> tuple[str, ...]:
    """Outputs of a round that hold the drafter's cache ("0.key") after each step but the last one to write it.

    Bound to the memory of drafter.past and drafter.present, they let every step write in place. Features are written by
    the verifier last.
    """
    return tuple(_after(step) + cache for step in range(1, gamma + (cache == FEATURES)))


def first_width(gamma: int, *, features: bool) -> int:
    """Tokens of a round's first draft step: what a fully accepted round leaves unfed.

    That is the last drafted token, and the one before it is known to exist; of a drafter that reads features, all that
    it fed on predicted ones.
    """
    return gamma + 1 if features else 2


def _after(step: int) -> str:
    return f"{DRAFTER}after_{step}."


@dataclass(frozen=True)
class _Request:
    """The round's inputs besides caches. limit: one value, or none."""

    batch: int
    width: int
    tokens: ir.Value
    position: ir.Value
    uniforms: ir.Value
    warping: tuple[ir.Value, ...]
    limit: tuple[ir.Value, ...]

    def inputs(self) -> list[ir.Value]:
        return [self.tokens, self.position, self.uniforms, *self.warping, *self.limit]


def _request(batch: int, gamma: int, width: int, limited: bool) -> _Request:
    return _Request(
        batch,
        width,
        tokens=value("tokens", [batch, width], I64),
        position=value("position", [batch], I64),
        uniforms=value("uniforms", [batch, 2 * gamma + 1], F32),
        warping=(
            value("temperature", [batch], F32),
            value("top_k", [batch], I64),
            value("top_p", [batch], F32),
            value("min_p", [batch], F32),
        ),
        limit=(value("limit", [batch], I64),) if limited else (),
    )


@dataclass(frozen=True)
class _Head:
    """How a drafter's logits become tokens. columns: of its logits that are tokens. ids: their full ids, or None.

    vocabulary: ids of the verifier.
    """

    columns: int
    rows: int
    vocabulary: int
    ids: ir.Value | None

    def law(self, body: Body, logits: ir.Value, warping: Sequence[ir.Value]) -> ir.Value:
        """The drafter's law over its own columns, `[B, columns]`, of logits `[B, 1, rows]`."""
        if self.columns < self.rows:
            logits = body.op("Slice", logits, body.constant([0]), body.constant([self.columns]), body.constant([2]))
        (law,) = body.call(warp(), logits, *warping)
        return body.op("Squeeze", law, body.constant([1]))

    def full(self, body: Body, law: ir.Value, column: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Full id of a drawn column `[B]`, and the law over all ids, `[B, V]`."""
        if self.ids is None:
            return column, law
        (wide,) = body.call(widen(), law, self.ids, body.constant([self.vocabulary]))
        return body.op("Gather", self.ids, column, axis=0), wide


def _head(
    drafter: ir.Model, vocabulary: int, head_ids: NDArray[np.integer[Any]] | None, weights: dict[str, ir.Value]
) -> _Head:
    """The drafter's head; its id table, if it needs one, joins `weights`."""
    rows = head_rows(drafter)
    if head_ids is None:
        head_ids = np.arange(min(rows, vocabulary))
    elif len(head_ids) != rows or (np.diff(head_ids) <= 0).any() or head_ids[0] < 0 or head_ids[-1] >= vocabulary:
        raise ValueError(f"head_ids must be {rows} ascending ids below {vocabulary}, one for each row of the head")
    ids = None
    if len(head_ids) < vocabulary:
        ids = initializer(f"{drafter.graph.name}.head_ids", HEAD, head_ids.astype(np.int64))
        weights[str(ids.name)] = ids
    return _Head(len(head_ids), rows, vocabulary, ids)


@dataclass(frozen=True)
class _Drafting:
    """What the draft steps left: ids, each `[B, 1]`, the laws they were drawn from, each `[B, 1, V]`, the caches."""

    ids: list[ir.Value]
    laws: list[ir.Value]
    states: list[State]


def _draft(
    body: Body, request: _Request, decoder: DecoderFunction, state: State, head: _Head, draws: Sequence[ir.Value]
) -> _Drafting:
    drafting = _Drafting([], [], [])
    lag = 1 if FEATURES in state else 0  # a feature drafter's row i holds token i + 1
    tokens, width = request.tokens, request.width
    position = body.op("Sub", request.position, body.constant([lag])) if lag else request.position
    for step, u in enumerate(draws):
        logits, state = _step(body, decoder, state, tokens, position, width, rows=[width - 1])
        law = head.law(body, logits, request.warping)
        (column,) = body.call(draw(), law, body.op("Squeeze", u, body.constant([1])))
        token, wide = head.full(body, law, column)
        tokens, width = body.op("Unsqueeze", token, body.constant([1])), 1
        position = body.op("Add", request.position, body.constant([request.width - lag + step]))
        drafting.ids.append(tokens)
        drafting.laws.append(body.op("Unsqueeze", wide, body.constant([1])))
        drafting.states.append(state)
    return drafting


def _verified(
    body: Body, request: _Request, decoder: DecoderFunction, past: State, drafting: _Drafting, kept: str
) -> tuple[ir.Value, State, list[State]]:
    """The verifier's laws after the drafted tokens, its caches, and the drafter's after each step that writes them.

    kept: the verifier's name for the features that the drafter reads; it writes them anew, as the last step.
    """
    *between, last = drafting.states
    if FEATURES not in last:
        p, left = _verify(body, request, decoder, past, drafting.ids)
        return p, left, drafting.states
    predicted = last[FEATURES]
    p, left = _verify(body, request, decoder, {**past, kept: predicted}, drafting.ids)
    own = {name: cache for name, cache in left.items() if name != kept}
    return p, own, [*between, {FEATURES: predicted}, {**last, FEATURES: left[kept]}]


def _verify(
    body: Body, request: _Request, decoder: DecoderFunction, state: State, drafted: Sequence[ir.Value]
) -> tuple[ir.Value, State]:
    """The verifier's laws `[B, gamma + 1, V]` after the last committed token and after each drafted one."""
    end = request.width - 1
    last = body.op("Slice", request.tokens, body.constant([end]), body.constant([end + 1]), body.constant([1]))
    tokens = body.op("Concat", last, *drafted, axis=1)
    position = body.op("Add", request.position, body.constant([end]))
    width = len(drafted) + 1
    logits, state = _step(body, decoder, state, tokens, position, width, rows=list(range(width)))
    (law,) = body.call(warp(), logits, *request.warping)
    return law, state


def _step(
    body: Body,
    decoder: DecoderFunction,
    state: State,
    tokens: ir.Value,
    position: ir.Value,
    width: int,
    rows: list[int],
) -> tuple[ir.Value, State]:
    """Feed `width` tokens in a chain; logits of `rows` and the caches."""
    topology = chain(width - 1)
    depths, block = body.constant(topology.depths()), body.constant(topology.block(), np.bool_)
    block.metadata_props[TOPOLOGY] = CHAIN
    controls = {"tokens": tokens, "position": position, "rows": body.constant(rows), "depths": depths, "block": block}
    return decoder.call(body, state, **controls)


def _past(decoder: DecoderFunction, owner: str) -> dict[str, ir.Value]:
    """Inputs for the caches of a decoder, by the cache's name."""
    return {
        name: ir.Value(name=f"{owner}{PAST}{name}", shape=cache.shape, type=cache.type)
        for name, cache in decoder.caches().items()
    }


def _named(state: State, prefix: str) -> list[ir.Value]:
    for name, cache in state.items():
        cache.name = prefix + name
    return list(state.values())


def _typed(output: ir.Value, name: str, shape: list[int]) -> ir.Value:
    output.name, output.shape, output.dtype = name, ir.Shape(shape), I64
    return output


def _batch(decoder: DecoderFunction) -> int:
    return next(static_shape(v)[0] for v in decoder.inputs if v.name == "position")


def _merged(*groups: Iterable[ir.Function]) -> list[ir.Function]:
    """All functions, each once. Raises ValueError when two of one name differ."""
    found: dict[ir.OperatorIdentifier, ir.Function] = {}
    for function in (f for group in groups for f in group):
        known = found.setdefault(function.identifier(), function)
        if known is not function and ir.to_proto(known) != ir.to_proto(function):
            raise ValueError(f"the two models have different functions '{function.name}'; give them roles of their own")
    return list(found.values())
