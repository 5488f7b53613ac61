import math
from collections.abc import Callable
from typing import Any

import pytest

from specc.errors import UnsupportedError
from specc.models.config import ConfigReader


def reader(**fields: Any) -> ConfigReader:
    return ConfigReader(fields, "model")


def test_values_come_back_as_they_stand() -> None:
    config = reader(count=3, ratio=1, exact=0.5, on=True, kind="a", inner={"x": 2})
    assert config.integer("count") == 3
    assert config.number("ratio") == 1.0
    assert config.number("exact") == 0.5
    assert config.flag("on", False) is True
    assert config.only("kind", "b", "a") == "a"
    assert config.section("inner").integer("x") == 2
    assert config.raw("kind") == "a"


def test_defaults_stand_in_for_absent_and_null() -> None:
    config = reader(count=None, ratio=None, on=None, kind=None)
    assert config.integer("count", 5) == config.integer("absent", 5) == 5
    assert config.number("ratio", 2.0) == config.number("absent", 2.0) == 2.0
    assert config.flag("on", True) is config.flag("absent", True) is True
    assert config.only("kind", "a") == config.only("absent", "a") == "a"
    assert not config.has("count")


def test_optional_tells_null_from_absent() -> None:
    config = reader(window=None, width=7)
    assert config.optional("window", 4096) is None
    assert config.optional("width", 4096) == 7
    assert config.optional("absent", 4096) == 4096


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (lambda c: c.integer("x"), "3", "a whole number from 1"),
        (lambda c: c.integer("x"), 3.0, "a whole number"),
        (lambda c: c.integer("x"), True, "a whole number"),
        (lambda c: c.integer("x"), 0, "a whole number from 1"),
        (lambda c: c.integer("x"), -5, "a whole number"),
        (lambda c: c.integer("x"), 2**40, "to 2147483647"),
        (lambda c: c.integer("x", minimum=2), 1, "from 2"),
        (lambda c: c.integer("x"), [1], "a whole number"),
        (lambda c: c.optional("x", 1), "none", "a whole number"),
        (lambda c: c.number("x"), "1e4", "a number above 0"),
        (lambda c: c.number("x"), 0, "a number above 0"),
        (lambda c: c.number("x"), -1.5, "a number above 0"),
        (lambda c: c.number("x"), False, "a number above 0"),
        (lambda c: c.number("x"), math.inf, "a number above 0"),
        (lambda c: c.number("x"), math.nan, "a number above 0"),
        (lambda c: c.number("x"), 10**400, "a number above 0"),
        (lambda c: c.number("x", above=1.0), 1.0, "a number above 1"),
        (lambda c: c.flag("x", False), 1, "true or false"),
        (lambda c: c.flag("x", False), "true", "true or false"),
        (lambda c: c.only("x", "silu", "swish"), "gelu", "'silu' or 'swish'"),
        (lambda c: c.only("x", False), 0, "False"),
        (lambda c: c.only("x", 1.0), True, "1.0"),
        (lambda c: c.only("x", 1.0), {"a": 1}, "1.0"),
        (lambda c: c.section("x"), [], "an object"),
        (lambda c: c.section("x"), "yarn", "an object"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(
    read: Callable[[ConfigReader], Any], value: Any, expected: str
) -> None:
    with pytest.raises(UnsupportedError, match=r"^model: config\.json field 'x' is .*; expected ") as refusal:
        read(reader(x=value))
    assert expected in str(refusal.value)


def test_a_whole_number_may_stand_for_a_float() -> None:
    assert reader(x=1).only("x", 1.0) == 1


def test_a_missing_field_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"config\.json field 'hidden_size' is missing"):
        reader().integer("hidden_size")


def test_finish_refuses_what_nobody_read_and_names_the_nearest() -> None:
    config = reader(rope_theta=1.0, rope_teta=2.0)
    config.number("rope_theta")
    with pytest.raises(
        UnsupportedError, match=r"'rope_teta' is 2\.0.*nearest known: 'rope_theta'.*--ignore-config rope_teta$"
    ):
        config.finish()


def test_finish_passes_inert_and_ignored_fields() -> None:
    config = ConfigReader({"a": 1, "b": 2, "inner": {"c": 3}}, "model", ignore={"b", "inner.c"})
    config.section("inner").finish()
    config.finish({"a"})


def test_an_inner_object_names_its_fields_in_full() -> None:
    config = ConfigReader({"inner": {"c": 3}}, "model", ignore={"c"})
    with pytest.raises(UnsupportedError, match=r"field 'inner\.c' .*--ignore-config inner\.c"):
        config.section("inner").finish()


@pytest.mark.parametrize("value", ["two\nlines", ["x" * 200], {"a\n": "b" * 100}])
def test_a_refusal_is_one_short_line(value: Any) -> None:
    with pytest.raises(UnsupportedError) as wrong:
        reader(x=value).integer("x")
    with pytest.raises(UnsupportedError) as unknown:
        reader(**{"odd\nname": value}).finish()
    assert len(str(wrong.value).splitlines()) == 1
    assert len(str(wrong.value)) < 200
    assert "\\n" in str(unknown.value).split(";")[0]
