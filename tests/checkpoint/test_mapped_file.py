from pathlib import Path

import numpy as np
import pytest

from specc.checkpoint.mapped_file import MappedFile, check_extents
from specc.errors import CheckpointError
from tests.support.refusals import refuses

FLOAT = np.dtype(np.float32)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "data").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return MappedFile(tmp_path / "data")


def test_values_up_to_the_end(file):
    np.testing.assert_array_equal(file.array(4, FLOAT, (3,)), np.array([1, 2, 3], np.float32), strict=True)


@pytest.mark.parametrize(("start", "shape"), [(4, (4,)), (16, (1,)), (-4, (1,)), (1 << 62, (1,)), (0, (1 << 62,))])
def test_nothing_beyond_the_file(file, start, shape):
    with refuses(CheckpointError, file.path, "beyond its end (16)"):
        file.array(start, FLOAT, shape)


def test_an_array_outlives_the_file(file, tmp_path):
    array = file.array(0, FLOAT, (4,))
    (tmp_path / "data").unlink()
    del file
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]


def resident_bytes():
    """Of this process, file-backed pages."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssFile"].split()[0]) << 10


def test_pages_leave_with_the_last_view(tmp_path):
    (tmp_path / "large").write_bytes(bytes(8 << 20))
    file, before = MappedFile(tmp_path / "large"), resident_bytes()
    view = file.array(4096 + 4, FLOAT, (1 << 20,)).reshape(2, -1)[1:].view(np.int32)
    assert view.sum() == 0
    touched = resident_bytes()
    assert touched > before + (1 << 20)
    del view
    assert resident_bytes() < touched - (1 << 20)
    assert file.array(0, FLOAT, (2 << 20,)).sum() == 0


def test_an_empty_array_is_read_only_too(file):
    array = file.array(16, FLOAT, (0, 3))
    assert array.shape == (0, 3)
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("extents", "found"),
    [
        ({"a": (0, 17)}, "'a' lies at bytes 0..17 of 16"),
        ({"a": (-1, 4)}, "'a' lies at bytes -1..4 of 16"),
        ({"b": (4, 8), "a": (0, 5)}, "'a' and 'b' overlap at byte 4"),
        ({"a": (0, 8), "b": (0, 8)}, "'a' and 'b' overlap at byte 0"),
        ({"a": (0, 8), "b": (2, 4)}, "'a' and 'b' overlap at byte 2"),
    ],
)
def test_extents_that_can_not_be(tmp_path, extents, found):
    with refuses(CheckpointError, tmp_path, found):
        check_extents(tmp_path, extents, 16)


def test_extents_may_touch_leave_gaps_and_be_empty(tmp_path):
    check_extents(tmp_path, {"a": (0, 4), "c": (8, 16), "b": (4, 4), "d": (16, 16)}, 16)
