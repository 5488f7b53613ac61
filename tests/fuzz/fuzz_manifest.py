"""Coverage-guided fuzzing of the manifest reader.

An even first byte: the rest is manifest.json. An odd one: the rest chooses places of a good manifest and new values
for them, so that mutations reach the checks behind the syntax.
"""

import json
from typing import Any

import atheris

from tests.fuzz.harness import check_refusal, fuzz

with atheris.instrument_imports(include=["specc_runtime"]):
    from specc_runtime.errors import ManifestError
    from specc_runtime.manifest_reading import parse_manifest
    from specc_runtime.manifest_writing import manifest_json

from tests.support.manifests import small_manifest

GOOD = manifest_json(small_manifest())


def edited(data: bytes) -> bytes:
    """The good manifest with up to eight values replaced, removed or added."""
    provider, document = atheris.FuzzedDataProvider(data), json.loads(GOOD)
    for _ in range(provider.ConsumeIntInRange(1, 8)):
        table: Any = document
        for _ in range(provider.ConsumeIntInRange(0, 5)):
            inner = [key for key in _keys(table) if isinstance(table[key], dict | list) and table[key]]
            if not inner:
                break
            table = table[provider.PickValueInList(inner)]
        keys = _keys(table)
        if isinstance(table, dict) and (not keys or provider.ConsumeBool()):
            keys = [provider.ConsumeUnicode(8)]
        if keys:
            table[provider.PickValueInList(keys)] = _value(provider)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _keys(table: Any) -> list[Any]:
    return list(table) if isinstance(table, dict) else list(range(len(table)))


def _value(provider: Any) -> Any:
    kind = provider.ConsumeIntInRange(0, 6)
    choices = [None, True, provider.ConsumeInt(8), provider.ConsumeFloat(), provider.ConsumeUnicode(12), [], {}]
    return choices[kind]


def one_input(data: bytes) -> None:
    """The reader gives a manifest that is written and read back as itself, or raises ManifestError."""
    content = edited(data[1:]) if data[:1] and data[0] % 2 else data[1:]
    try:
        manifest = parse_manifest(content)
    except ManifestError as error:
        check_refusal(error)
        str(error).encode("utf-8")  # it can be printed
        return
    assert parse_manifest(manifest_json(manifest).encode("utf-8")) == manifest


def seeds() -> list[bytes]:
    return [b"\0" + GOOD.encode(), b"\x01\0", b"\x01" + bytes(range(64))]


if __name__ == "__main__":
    fuzz(one_input, seeds())
