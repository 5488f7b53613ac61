"""Packages of Python as pip is asked for them."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def package_name(requirement: str) -> str:
    """`jax` of `jax[tpu]>=0.10`."""
    found = _NAME.match(requirement)
    return requirement if found is None else found[0]


def pinned(requirement: str, versions: Mapping[str, str]) -> str:
    """`requirement` in the version that compiled a bundle, if it is among `versions`: some engines read no other's."""
    version = versions.get(package_name(requirement))
    return requirement if version is None else f"{re.split('[=<>]', requirement)[0]}=={version}"
