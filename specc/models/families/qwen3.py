"""Qwen 3 (dense): an RMS norm over each head of q and k, a head size of its own."""

from specc.models.config import ConfigReader
from specc.models.reading import pre_norm_decoder, read_sizes, read_window
from specc.models.spec import DecoderSpec


def describe(config: ConfigReader) -> DecoderSpec:
    """`head_dim` (128 by default) need not be hidden / heads."""
    bias = config.flag("attention_bias", False)
    sizes = read_sizes(config, context=32768, head_dim=128)
    return pre_norm_decoder(
        config,
        "qwen3",
        sizes,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=True,
        window=read_window(config, sizes.layers),
    )
