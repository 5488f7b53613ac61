import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc_runtime.errors import ManifestError
from specc_runtime.manifest import Manifest
from specc_runtime.manifest_reading import MAX_MANIFEST_BYTES, parse_manifest
from specc_runtime.manifest_writing import manifest_json
from tests.support.manifests import small_manifest

GOOD = manifest_json(small_manifest())


def parse_edited(*path: str | int, value: object) -> Manifest:
    """Parse the small manifest after setting `path` of its JSON to `value`."""
    document = json.loads(GOOD)
    table = document
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    return parse_manifest(json.dumps(document).encode())


def test_what_is_written_is_read_back() -> None:
    assert parse_manifest(GOOD.encode()) == small_manifest()


def test_equal_manifests_are_equal_bytes() -> None:
    manifest = small_manifest()
    reordered = replace(manifest, files=dict(reversed(manifest.files.items())))
    assert manifest_json(reordered) == GOOD
    assert GOOD.startswith('{\n "schema": 1,')


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("programs", 2, "width"), "four", r"programs\[2\]\.width: expected an integer, found a string \('four'\)"),
        (("programs", 0, "widht"), 4, r"programs\[0\]\.widht: unknown key, did you mean width"),
        (("programs", 0, "kind"), "verfy", r"programs\[0\]\.kind: expected one of prefill, verify"),
        (("programs", 0, "inputs", 0, "shape", 1), 2.0, r"inputs\[0\]\.shape\[1\]: expected an integer or a string"),
        (("context",), True, r"context: expected an integer, found true or false"),
        (("context",), 2**60, r"context: .* beyond the integers"),
        (("quality", "kl"), "low", r"quality\.kl: expected a number"),
        (("files", "tokenizer.json", "bytes"), None, r"\['tokenizer.json'\]\.bytes: expected an integer, found null"),
        (("drafters",), [], r"drafters: expected an object, found a list"),
        (("verifier",), None, r"verifier: expected an object, found null"),
        (("colour",), 1, r"colour: unknown key"),
        (("schema",), 2, r"schema 2 is newer than 1, this runtime's: upgrade specc-runtime"),
        (("schema",), 0, r"schema 0 is older than 1, this runtime's: re-compile"),
        (("schema",), "1", r"schema: expected an integer"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(path: tuple[str | int, ...], value: object, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        parse_edited(*path, value=value)


def test_a_missing_field_is_named() -> None:
    document = json.loads(GOOD)
    del document["programs"][1]["file"]
    with pytest.raises(ManifestError, match=r"programs\[1\]\.file: missing"):
        parse_manifest(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a JSON document"),
        (b"\xff\xfe", "not a JSON document"),
        (b"[" * 100_000, "not a JSON document"),
        (b"1" * 5000, "not a JSON document"),
        (b"[]", "expected an object, found a list"),
        (b'{"schema": 1, "schema": 1}', "'schema' is given twice"),
        (b'{"schema": NaN}', "NaN is not a JSON number"),
        (b'{"schema": 1, "\\ud800": 1}', "not a JSON document .*surrogates not allowed"),
        (b" " * (MAX_MANIFEST_BYTES + 1), "more than the"),
    ],
)
def test_bytes_that_are_no_manifest(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        parse_manifest(data)


def assert_one_clear_line(data: bytes) -> None:
    """Any bytes give a Manifest or a ManifestError of one printable line."""
    try:
        parse_manifest(data)
    except ManifestError as error:
        text = str(error)
        assert "\n" not in text
        text.encode("utf-8")
        assert len(text) < 1500


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert_one_clear_line(data)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_edit_of_a_good_manifest(data: st.DataObject) -> None:
    document = json.loads(GOOD)
    table = document
    for _ in range(data.draw(st.integers(0, 5))):
        inner = [key for key in _keys(table) if isinstance(table[key], dict | list) and table[key]]
        if not inner:
            break
        table = table[data.draw(st.sampled_from(inner))]
    table[data.draw(st.sampled_from(_keys(table)))] = data.draw(JSON_VALUES)
    assert_one_clear_line(json.dumps(document).encode())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=3), st.integers(0, 3))
def test_any_damage_to_a_good_manifest(at: int, patch: bytes, removed: int) -> None:
    data = GOOD.encode()
    assert_one_clear_line(data[:at] + patch + data[at + removed :])
    assert_one_clear_line(data[:at])


def _keys(table: dict[str, object] | list[object]) -> list[str] | list[int]:
    return list(table) if isinstance(table, dict) else list(range(len(table)))
