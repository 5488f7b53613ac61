from pathlib import Path

import pytest

from specc.assembly.calibration import calibration_ids, read_calibration
from specc.assembly.sources import open_model
from specc.errors import CheckpointError, OptionError
from tests.support.refusals import refuses
from tests.support.tiny_models import tiny_model


def test_the_shipped_text_is_long_enough_to_measure_on(tmp_path: Path) -> None:
    assert len(read_calibration(None).split()) > 3000
    assert len(calibration_ids(read_calibration(None), open_model(str(tiny_model(tmp_path)), ()))) > 512


def test_own_text(tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("größer", encoding="utf-8")
    assert read_calibration(file) == "größer"


@pytest.mark.parametrize(("content", "fragment"), [(None, "No such file"), (b"\xff", "UTF-8"), (b"", "is empty")])
def test_no_text(content: bytes | None, fragment: str, tmp_path: Path) -> None:
    file = tmp_path / "t"
    if content is not None:
        file.write_bytes(content)
    with refuses(OptionError, "calibration", file, fragment):
        read_calibration(file)


def test_ids_are_plain_ones_without_special_tokens(tmp_path: Path) -> None:
    source = open_model(str(tiny_model(tmp_path)), ())
    assert calibration_ids("abz", source).tolist() == [257, 25]  # "aa", the first pair, is 256


def test_no_tokenizer_no_ids(tmp_path: Path) -> None:
    with refuses(CheckpointError, tmp_path, "no tokenizer", "add tokenizer.json"):
        calibration_ids("a", open_model(str(tiny_model(tmp_path, tokenizer=None)), ()))
