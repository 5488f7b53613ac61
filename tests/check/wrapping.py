"""Loaded programs with one of their calls replaced: what a bundle that computes something else would do."""

from collections.abc import Callable
from typing import Any

from specc.check.subject import Subject
from specc_runtime.engines.base import Programs


class Replaced:
    """`programs` but for the calls in `calls`; each gets the original call first."""

    def __init__(self, programs: Programs, **calls: Callable[..., Any]) -> None:
        self._programs = programs
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._programs, name)
        return (lambda *given: self._calls[name](original, *given)) if name in self._calls else original


def replaced(subject: Subject, **calls: Callable[..., Any]) -> Subject:
    """The subject with these calls replaced."""
    return Subject(subject.bundle, Replaced(subject.programs, **calls))
