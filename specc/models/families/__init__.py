"""One file per `model_type`: `describe(config) -> DecoderSpec`. A new family is a new file; nothing else lists them."""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from typing import Any

from specc.models.config import INERT_FIELDS, ConfigReader
from specc.models.spec import DecoderSpec


def known_families() -> tuple[str, ...]:
    """The `model_type`s there is a file for."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def describe(config: Mapping[str, Any], source: str, ignore: Collection[str] = ()) -> DecoderSpec:
    """What the decoder of a config.json is.

    source: named in errors. ignore: fields the user vouches for ("rope_scaling.x" inside an object).
    Raises UnsupportedError with the field's name for anything specc would not honour.
    """
    reader = ConfigReader(config, source, ignore=ignore)
    model_type = reader.raw("model_type")
    if model_type not in known_families():
        raise reader.wrong("model_type", f"one of {', '.join(known_families())}")
    module = importlib.import_module(f"{__name__}.{model_type}")
    reading: Callable[[ConfigReader], DecoderSpec] = module.describe
    spec = reading(reader)
    reader.finish(INERT_FIELDS)
    return spec
