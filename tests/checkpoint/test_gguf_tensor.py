import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, quants

from specc.checkpoint import gguf_tensor as gguf_tensor_module
from specc.checkpoint.gguf_file import read_gguf
from specc.checkpoint.gguf_tensor import gguf_tensor
from specc.errors import CheckpointError
from tests.support.gguf_files import write_gguf
from tests.support.refusals import refuses

QUANTISED = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.TQ1_0, Type.TQ2_0, Type.MXFP4]


def write_tensor(path, stored):
    return write_gguf(path, {"general.architecture": "llama"}, {"t": stored})


def open_tensor(path, row_order=None):
    gguf = read_gguf(path)
    return gguf_tensor(gguf, gguf.tensors["t"], "name", row_order)


@pytest.fixture
def values():
    return np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32)


@pytest.mark.parametrize("kind", QUANTISED)
def test_dequantised_values_equal_the_gguf_packages(tmp_path, values, kind):
    path = write_tensor(tmp_path / "x.gguf", (values, kind))
    expected = quants.dequantize(GGUFReader(path).tensors[0].data, kind)
    tensor = open_tensor(path)
    assert (tensor.name, tensor.shape, tensor.dtype) == ("name", (6, 512), np.float32)
    np.testing.assert_array_equal(tensor.numpy(), expected, strict=True)


def overwrite(path, content):
    """Put other bytes at the start of the file's first tensor."""
    start = next(iter(read_gguf(path).tensors.values())).start
    whole = path.read_bytes()
    path.write_bytes(whole[:start] + content + whole[start + len(content) :])


def test_q4_1_values_by_hand(tmp_path):
    """A block is scale and minimum in float16, then 16 bytes: low nibbles are values 0 to 15, high ones 16 to 31."""
    path = write_tensor(tmp_path / "x.gguf", (np.zeros((1, 32), np.float32), Type.Q4_1))
    overwrite(path, np.array([0.5, -1.0], np.float16).tobytes() + bytes(i | (15 - i) << 4 for i in range(16)))
    low = [-1.0 + 0.5 * i for i in range(16)]
    np.testing.assert_array_equal(open_tensor(path).numpy(), np.array([low + low[::-1]], np.float32), strict=True)


@pytest.mark.parametrize(
    ("kind", "dtype"), [(Type.F32, np.float32), (Type.F16, np.float16), (Type.BF16, ml_dtypes.bfloat16)]
)
def test_plain_types_are_read_only_views_in_their_own_dtype(tmp_path, values, kind, dtype):
    path = write_tensor(tmp_path / "x.gguf", (values, kind))
    tensor = open_tensor(path)
    array = tensor.numpy()
    np.testing.assert_array_equal(array, values.astype(dtype), strict=True)
    assert tensor.dtype == dtype
    assert not array.flags.writeable
    assert np.shares_memory(array, tensor.numpy())


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.F16, Type.BF16])
def test_row_order_moves_whole_rows(tmp_path, values, kind):
    path = write_tensor(tmp_path / "x.gguf", (values, kind))
    order = np.array([5, 0, 4, 1, 3, 2])
    np.testing.assert_array_equal(open_tensor(path, order).numpy(), open_tensor(path).numpy()[order], strict=True)


@pytest.mark.parametrize("elements", [1, 512, 1024, 1500])
def test_chunk_size_does_not_change_values(tmp_path, monkeypatch, values, elements):
    tensor = open_tensor(write_tensor(tmp_path / "x.gguf", (values, Type.Q4_0)))
    whole = tensor.numpy()
    monkeypatch.setattr(gguf_tensor_module, "_CHUNK_ELEMENTS", elements)
    np.testing.assert_array_equal(tensor.numpy(), whole, strict=True)


def test_dequantising_takes_little_memory_beyond_the_result(tmp_path):
    values = np.zeros((16384, 512), np.float32)
    tensor = open_tensor(write_tensor(tmp_path / "x.gguf", (values, Type.Q8_0)))
    tracemalloc.start()
    try:
        result = tensor.numpy()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.6 * result.nbytes  # measured 1.5 for these 32 MiB; a chunk's temporaries don't grow with the tensor


@pytest.mark.parametrize("shape", [(512,), (2, 3, 32)])
def test_any_rank_keeps_its_shape(tmp_path, shape):
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    tensor = open_tensor(write_tensor(tmp_path / "x.gguf", (values, Type.Q8_0)))
    np.testing.assert_allclose(tensor.numpy(), values, rtol=0, atol=0.05)  # 8 bits over about ±3


@pytest.mark.parametrize("kind", [np.int32, np.float64])
def test_types_that_hold_no_weights_are_refused_by_name(tmp_path, kind):
    path = write_tensor(tmp_path / "x.gguf", np.ones((2, 32), kind))
    with refuses(CheckpointError, path, "tensor 't'", {np.int32: "I32", np.float64: "F64"}[kind], "Q8_0 or F16"):
        open_tensor(path)


def test_moved_rows_of_a_quantised_vector_are_refused(tmp_path):
    path = write_tensor(tmp_path / "x.gguf", (np.ones(64, np.float32), Type.Q8_0))
    with refuses(CheckpointError, path, "tensor 't' is quantised, expected F32"):
        open_tensor(path, np.arange(64))


def test_infinite_scales_come_out_without_a_warning(tmp_path):
    path = write_tensor(tmp_path / "x.gguf", (np.ones((1, 32), np.float32), Type.Q8_0))
    overwrite(path, np.float16(np.inf).tobytes())
    assert np.isinf(open_tensor(path).numpy()).all()
