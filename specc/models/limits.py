"""How many positions a decoder can be compiled for."""

from specc.errors import UnsupportedError
from specc.models.spec import DecoderSpec


def largest_context(spec: DecoderSpec) -> int:
    """The most positions for which the compiled decoder is the checkpoint's own.

    A token sees `window` positions, its own among them: with no more positions than that, nothing is ever out of sight.
    """
    trained = max(spec.context, spec.rope.reach)
    window = spec.attention.window
    return trained if window is None else min(trained, window)


def check_context(spec: DecoderSpec, context: int, source: str) -> None:
    """Raise UnsupportedError, naming the config.json field, when `context` positions are more than the model takes."""
    limit = largest_context(spec)
    if context <= limit:
        return
    if limit == spec.attention.window:
        field, reason = spec.attention.window_field, "specc builds attention without a window"
    else:
        field, reason = "max_position_embeddings", "the model was not made for positions beyond it"
    raise UnsupportedError(
        f"{source}: context {context} exceeds config.json field '{field}', {reason}; pass --context {limit} or less"
    )
