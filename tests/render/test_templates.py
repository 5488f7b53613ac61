import pytest
from jinja2 import UndefinedError

from specc.errors import ResourceError
from specc.render import render
from specc.resources import data_folder


def test_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="manifest"):
        render("bundle_README.md")


def test_unknown_template_names_the_known_ones() -> None:
    with pytest.raises(ResourceError, match=r"no shipped file templates/none\.j2; there are: .*bundle_README\.md\.j2"):
        render("none")


def test_every_template_ends_in_j2() -> None:
    assert {entry.name.rpartition(".")[2] for entry in data_folder("templates").iterdir()} == {"j2"}
