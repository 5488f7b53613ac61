"""How a test says what a refusal must look like."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from specc_runtime.errors import SpeccError


@contextmanager
def refuses(error: type[SpeccError], *fragments: object) -> Iterator[None]:
    """The block raises `error` in one line that holds every fragment: the file's name, what was found, the fix."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message, message
    for fragment in fragments:
        assert str(fragment) in message, f"{str(fragment)!r} is not in {message!r}"
