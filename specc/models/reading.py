"""Fields that most families share, read the same way everywhere."""

from dataclasses import dataclass

from specc.models.config import ConfigReader
from specc.models.rope import read_rope
from specc.models.spec import AttentionSpec, DecoderSpec, MlpSpec

_WIDEST_HEAD = 65536


@dataclass(frozen=True)
class Sizes:
    """The plain numbers of a decoder."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_rows: int
    context: int
    epsilon: float


def read_sizes(config: ConfigReader, *, context: int, head_dim: int | None = None, grouped: bool = True) -> Sizes:
    """The sizes, with the family's own defaults.

    context: for max_position_embeddings. head_dim: for head_dim (None: hidden / heads). grouped: num_key_value_heads
    must be given (else: as many as heads).
    """
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", None if grouped else heads)
    config.only("hidden_act", "silu", "swish")
    if heads % kv_heads:
        raise config.wrong("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    return Sizes(
        layers=config.integer("num_hidden_layers", minimum=0),
        hidden=hidden,
        intermediate=config.integer("intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_read_head_dim(config, head_dim, hidden, heads),
        vocab_rows=config.integer("vocab_size"),
        context=config.integer("max_position_embeddings", context),
        epsilon=config.number("rms_norm_eps", 1e-6),
    )


def _read_head_dim(config: ConfigReader, default: int | None, hidden: int, heads: int) -> int:
    """An even number: rotary embedding pairs the two halves of a head."""
    if default is None and not config.has("head_dim"):
        if hidden % (2 * heads):
            raise config.wrong("hidden_size", f"a multiple of twice num_attention_heads ({heads}), or a head_dim")
        default = hidden // heads
    head_dim = config.integer("head_dim", default, minimum=2, maximum=_WIDEST_HEAD)
    if head_dim % 2:
        raise config.wrong("head_dim", "an even number: rotary embedding pairs the two halves of a head")
    return head_dim


def read_window(config: ConfigReader, layers: int) -> int | None:
    """Qwen's sliding window: on only if `use_sliding_window`, and then in the layers from `max_window_layers` on."""
    asked = config.flag("use_sliding_window", False)
    window = config.optional("sliding_window", 4096)
    first = config.integer("max_window_layers", 28, minimum=0)
    sliding = _read_layer_types(config, layers)
    if sliding is None:
        sliding = asked and window is not None and first < layers
    elif sliding and not (asked and window is not None):
        raise config.refuse(
            "layer_types", "has sliding_attention", "expected use_sliding_window true and a sliding_window"
        )
    return window if sliding else None


def _read_layer_types(config: ConfigReader, layers: int) -> bool | None:
    """Whether any layer slides; None if the field is not there."""
    types = config.raw("layer_types")
    if types is None:
        return None
    known = ("full_attention", "sliding_attention")
    if not isinstance(types, list) or len(types) != layers or any(t not in known for t in types):
        raise config.wrong("layer_types", f"a list of num_hidden_layers ({layers}) times {' or '.join(known)}")
    return known[1] in types


def pre_norm_decoder(
    config: ConfigReader,
    model_type: str,
    sizes: Sizes,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: bool = False,
    mlp_bias: bool = False,
    window: int | None = None,
) -> DecoderSpec:
    """The spec of a family with Llama's layer, rope fields and head; the options are where such families differ."""
    return DecoderSpec(
        model_type=model_type,
        layers=sizes.layers,
        hidden=sizes.hidden,
        vocab_rows=sizes.vocab_rows,
        context=sizes.context,
        epsilon=sizes.epsilon,
        attention=AttentionSpec(
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            scale=sizes.head_dim**-0.5,
            qkv_bias=qkv_bias,
            output_bias=output_bias,
            qk_norm=qk_norm,
            window=window,
        ),
        mlp=MlpSpec(sizes.intermediate, bias=mlp_bias),
        rope=read_rope(config, sizes.head_dim, sizes.context),
        tied_head=config.flag("tie_word_embeddings", False),
    )
