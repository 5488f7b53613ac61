"""The data files specc ships: templates, targets, the calibration text."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from specc.errors import ResourceError


def data_folder(name: str) -> Traversable:
    """The folder `name` of shipped data: inside an installed package, else the checkout's top-level folder.

    Raises ResourceError if neither exists.
    """
    installed = files("specc") / "_data" / name
    if installed.is_dir():
        return installed
    checkout = Path(__file__).parents[1] / name
    if checkout.is_dir():
        return checkout
    raise ResourceError(f"the installation lacks its data folder {name!r} (looked in {installed} and {checkout})")


def read_data(folder: str, name: str) -> str:
    """The UTF-8 text of shipped file `name` in `folder`. Raises ResourceError if there is none."""
    file = data_folder(folder) / name
    if not file.is_file():
        known = ", ".join(sorted(entry.name for entry in data_folder(folder).iterdir()))
        raise ResourceError(f"no shipped file {folder}/{name}; there are: {known}")
    return file.read_text(encoding="utf-8")


def default_calibration_text() -> str:
    """Varied English text (about 25 KB) that distances and token counts are measured on."""
    return read_data("calibration", "default.txt")
