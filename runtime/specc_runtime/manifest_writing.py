"""Manifest -> manifest.json: fields in the records' order, mapping keys sorted, so equal manifests are equal bytes."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from specc_runtime.manifest import Manifest
from specc_runtime.manifest_checks import check_manifest


def manifest_json(manifest: Manifest) -> str:
    """The text of manifest.json (UTF-8, ends in a newline); `manifest_reading.parse_manifest` gives `manifest` back.

    Raises ManifestError if `manifest` contradicts itself: a compiler must not write what no runtime loads.
    """
    check_manifest(manifest)
    document = {"schema": manifest.schema, **_plain(manifest)}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
