"""Fields that most families share, read the same way everywhere."""

from dataclasses import dataclass

from specc.models.config import ConfigReader
from specc.models.rope import read_rope
from specc.models.spec import AttentionSpec, DecoderSpec, MlpSpec


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


def read_sizes(config: ConfigReader, *, context: int, head_dim: int | None = None) -> Sizes:
    """context, head_dim: the family's defaults for max_position_embeddings and head_dim (None: hidden / heads)."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.only("hidden_act", "silu")
    return Sizes(
        layers=config.integer("num_hidden_layers", minimum=0),
        hidden=hidden,
        intermediate=config.integer("intermediate_size"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=config.integer("head_dim", head_dim or hidden // heads),
        vocab_rows=config.integer("vocab_size"),
        context=config.integer("max_position_embeddings", context),
        epsilon=config.number("rms_norm_eps", 1e-6),
    )


def read_window(config: ConfigReader) -> int | None:
    """Qwen's sliding window: on only if `use_sliding_window`, and then in the layers from `max_window_layers` on."""
    window = config.integer("sliding_window", 4096) if config.has("sliding_window") else None
    config.raw("max_window_layers")
    layer_types = config.raw("layer_types")
    if layer_types is not None and (
        not isinstance(layer_types, list) or set(layer_types) - {"full_attention", "sliding_attention"}
    ):
        raise config.refuse(
            "layer_types", f"is {str(layer_types)[:60]}", "expected full_attention or sliding_attention"
        )
    sliding = config.flag("use_sliding_window", False) or "sliding_attention" in (layer_types or [])
    return window if sliding else None


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
