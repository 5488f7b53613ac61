"""manifest.json -> Manifest, strictly: any bytes give a Manifest or a ManifestError that names the place.

The records in `manifest` are the schema. Keys that no record has, values of another type and values that contradict
each other are refused; nothing is guessed, nothing is converted.
"""

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from specc_runtime.errors import ManifestError
from specc_runtime.manifest import MANIFEST_NAME, SCHEMA_VERSION, Manifest
from specc_runtime.manifest_checks import check_manifest, first_repeated

MAX_MANIFEST_BYTES = 16 << 20
MAX_INT = 2**53  # the integers that every JSON reader keeps exactly

_TYPE_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def parse_manifest(data: bytes, source: str = MANIFEST_NAME) -> Manifest:
    """The manifest that `data` (UTF-8 JSON) holds; `source` names it in messages.

    Raises ManifestError: not JSON, another schema version, unknown or missing keys, wrong types, contradictions.
    """
    try:
        document = _load_json(data)
        _check_schema(document)
        manifest: Manifest = _decode(Manifest, document, "")
        check_manifest(manifest)
    except ManifestError as error:
        raise ManifestError(f"{source}: {error}") from None
    return manifest


def _load_json(data: bytes) -> Any:
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{len(data)} bytes, more than the {MAX_MANIFEST_BYTES} a manifest may have; re-compile")
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # fails on half of a character, escaped
        return document
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, huge integers, bottomless nesting
        raise ManifestError(f"not a JSON document ({error}); re-copy or re-compile the bundle") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ManifestError(f"key {_quote(first_repeated(key for key, _ in pairs))} is given twice in one object")
    return table


def _refuse_constant(word: str) -> NoReturn:
    raise ManifestError(f"{word} is not a JSON number")


def _check_schema(document: Any) -> None:
    """Versions are compared before anything else: keys of another version would only look like mistakes."""
    if not isinstance(document, dict):
        raise ManifestError(f"expected an object, found {_describe(document)}")
    found = document.get("schema")
    if type(found) is not int:
        raise ManifestError(f"schema: expected an integer, found {_describe(found)}")
    if found > SCHEMA_VERSION:
        raise ManifestError(f"schema {found} is newer than {SCHEMA_VERSION}, this runtime's: upgrade specc-runtime")
    if found < SCHEMA_VERSION:
        raise ManifestError(f"schema {found} is older than {SCHEMA_VERSION}, this runtime's: re-compile the bundle")


def _decode(kind: Any, value: Any, path: str) -> Any:
    """`value` as `kind` (a type of a record's field), or a ManifestError that names `path`."""
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        items = _expect(list, value, path)
        return tuple(_decode(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(items))
    if origin is Mapping:
        table = _expect(dict, value, path)
        return {key: _decode(arguments[1], item, _join(path, key)) for key, item in table.items()}
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, path)
    if origin is Literal:
        if value not in arguments or type(value) is not str:
            raise ManifestError(f"{path}: expected one of {', '.join(arguments)}, found {_describe(value)}")
        return value
    return value if kind is Any else _decode_scalar(kind, value, path)


def _decode_record(kind: Any, value: Any, path: str) -> Any:
    table = _expect(dict, value, path)
    hints = _hints(kind)
    for key in table:
        if key not in hints:
            raise ManifestError(f"{_join(path, key)}: unknown key{_nearest(key, hints)}; upgrade specc-runtime")
    required = [f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING]
    for key in required:
        if key not in table:
            raise ManifestError(f"{_join(path, key)}: missing; re-compile the bundle")
    return kind(**{key: _decode(hints[key], item, _join(path, key)) for key, item in table.items()})


def _decode_union(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    """One record or container beside null, or a choice of scalars: the first choice whose JSON type fits decides."""
    if value is None and type(None) in choices:
        return None
    scalars = [choice for choice in choices if choice in (str, int, float, bool)]
    for choice in choices:
        if choice is not type(None) and (choice not in scalars or len(scalars) == 1 or type(value) is choice):
            return _decode(choice, value, path)
    expected = " or ".join(_TYPE_WORDS[choice] for choice in choices)
    raise ManifestError(f"{path}: expected {expected}, found {_describe(value)}")


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) <= MAX_INT else math.inf
    _expect(kind, value, path)
    if kind is int and abs(value) > MAX_INT:
        raise ManifestError(f"{path}: {value:.3e} is beyond the integers a manifest may hold (2**53)")
    if kind is float and not math.isfinite(value):
        raise ManifestError(f"{path}: the number is not finite")
    return value


def _expect(kind: type, value: Any, path: str) -> Any:
    if type(value) is not kind:  # bool is an int to isinstance
        raise ManifestError(f"{path or 'manifest'}: expected {_TYPE_WORDS[kind]}, found {_describe(value)}")
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _join(path: str, key: str) -> str:
    shown = key if key.isidentifier() and len(key) <= 64 else f"[{_quote(key)}]"
    return f"{path}.{shown}" if path and shown is key else path + shown


def _describe(value: Any) -> str:
    word = _TYPE_WORDS[type(value)]
    return f"{word} ({_quote(value)})" if isinstance(value, str | int | float) else word


def _quote(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= MAX_INT else "a huge integer"
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(key: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches  # only a bad manifest pays for the import

    close = get_close_matches(key[:64], known, n=1)
    return f", did you mean {close[0]}" if close else f", known are {', '.join(known)}"
