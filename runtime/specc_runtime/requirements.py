"""What a program requires of a machine, in one grammar for every engine, and whether a machine has it.

`NAME==VERSION` and `NAME>=VERSION` ask for a version; `NAME:A|B` and `NAME=A` for one of some values; a bare NAME for
something that is there or not.
"""

import re
from collections.abc import Mapping

_REQUIREMENT = re.compile(r"([a-z][a-z0-9-]*)(?:(==|>=|:|=)(.+))?")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_SHORTEST = 3  # numbers of a version, at least


def is_met(requirement: str, here: Mapping[str, str]) -> bool:
    """Whether a requirement holds where `here` says which versions and values there are, by name.

    What `here` does not name, and what can't be read, is not met: another version of specc may ask for it.
    """
    asked = _REQUIREMENT.fullmatch(requirement)
    if asked is None or asked[1] not in here:
        return False
    name, relation, wanted = asked.groups()
    match relation:
        case None:
            return True
        case "==":
            return version_numbers(here[name]) == version_numbers(wanted)
        case ">=":
            return version_numbers(here[name]) >= version_numbers(wanted)
        case _:
            return here[name] in wanted.split("|")


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers a version begins with, three at least, to compare: of 2.16.dev+7 they are 2, 16 and 0."""
    found = _VERSION.match(version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    return (*numbers, *[0] * (_SHORTEST - len(numbers)))
