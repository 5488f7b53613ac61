"""Llama 1 to 3 and the many models of their shape (SmolLM, TinyLlama, Yi, ...)."""

from specc.models.config import ConfigReader
from specc.models.reading import pre_norm_decoder, read_sizes
from specc.models.spec import DecoderSpec


def describe(config: ConfigReader) -> DecoderSpec:
    """Biases on q, k, v and the output together (`attention_bias`), and on the MLP (`mlp_bias`)."""
    config.only("rope_interleaved", False)
    bias = config.flag("attention_bias", False)
    return pre_norm_decoder(
        config,
        "llama",
        read_sizes(config, context=2048, grouped=False),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", False),
    )
