import pytest

from specc.errors import ResourceError
from specc.resources import data_folder, default_calibration_text, read_data


def test_folders_are_found() -> None:
    assert (data_folder("targets") / "cpu.toml").is_file()
    assert read_data("targets", "cpu.toml").startswith("#")


def test_missing_data_is_named() -> None:
    with pytest.raises(ResourceError, match="lacks its data folder 'nowhere'"):
        data_folder("nowhere")
    with pytest.raises(ResourceError, match=r"no shipped file targets/cp\.toml; there are: a100\.toml"):
        read_data("targets", "cp.toml")


def test_calibration_text_is_long_and_varied() -> None:
    text = default_calibration_text()
    words = text.split()
    assert 20_000 < len(text.encode()) < 40_000
    assert len({word.strip(".,;:!?\"'()").lower() for word in words}) > 1_200, "few different words: poor token counts"
    assert "def " in text, "no code"
    assert any(character.isdigit() for character in text)
