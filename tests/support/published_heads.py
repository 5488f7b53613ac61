"""The same drafter as its format's first authors would publish it."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


def as_published(
    config: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """config.json with the layer's fields at the top, and weights whose one layer is `midlayer`."""
    layer = dict(config["transformer_layer_config"])
    published = layer | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": config["draft_vocab_size"]}
    return published, {name.replace("layers.0.", "midlayer."): array for name, array in weights.items()}
