"""Qwen 2 and 2.5: biases on q, k and v, never on the output."""

from specc.models.config import ConfigReader
from specc.models.reading import pre_norm_decoder, read_sizes, read_window
from specc.models.spec import DecoderSpec


def describe(config: ConfigReader) -> DecoderSpec:
    """The biases are part of the family: no field switches them."""
    config.only("use_mrope", False)
    sizes = read_sizes(config, context=32768)
    return pre_norm_decoder(config, "qwen2", sizes, qkv_bias=True, window=read_window(config, sizes.layers))
