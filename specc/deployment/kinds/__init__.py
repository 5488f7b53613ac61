"""One file a kind, found by its name; a new kind is a new file and its templates, nothing else lists them."""

import importlib
import pkgutil

from specc.deployment.records import Kind
from specc.errors import OptionError, unknown


def known_kinds() -> tuple[str, ...]:
    """Names of the kinds of output there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load_kind(name: str) -> Kind:
    """The kind called `name`. Raises OptionError for one there is no file of."""
    if name not in known_kinds():
        raise OptionError(unknown("kind of output", name, known_kinds()))
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind
