"""Mistral 7B and its descendants: Llama's layer with a sliding window."""

from specc.models.config import ConfigReader
from specc.models.reading import pre_norm_decoder, read_sizes
from specc.models.spec import DecoderSpec


def describe(config: ConfigReader) -> DecoderSpec:
    """`sliding_window` null means every position is seen; absent, it is 4096."""
    window = config.optional("sliding_window", 4096)
    return pre_norm_decoder(config, "mistral", read_sizes(config, context=4096 * 32), window=window)
