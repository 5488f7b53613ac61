import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from safetensors import safe_open

from specc.bundle.weight_store import ALIGNMENT, PAD_PREFIX, WeightStore
from specc.core.initializers import first_rows, initializer, lazy_initializer, reshape
from specc.errors import CompileError
from specc_runtime.manifest import WEIGHTS_FILE
from tests.support.refusals import refuses

Array = NDArray[Any]


def model(*values: ir.Value, name: str = "verifier") -> ir.Model:
    graph = ir.Graph([], [], nodes=[], initializers=list(values), opset_imports={"": 24}, name=name)
    return ir.Model(graph, ir_version=13)


def written(path: Path, *models: ir.Model) -> tuple[WeightStore, dict[str, Array]]:
    """The store after writing, and what the safetensors package reads."""
    store = WeightStore()
    for graph in models:
        store.add(graph)
    store.write(path, lambda _: None)
    with safe_open(path, framework="numpy") as file:
        return store, {name: file.get_tensor(name) for name in file.keys() if not name.startswith(PAD_PREFIX)}  # noqa: SIM118


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8, np.int32, np.int64, np.bool_])
def test_dtypes_and_shapes(dtype: type[np.generic], tmp_path: Path) -> None:
    arrays = {"a": np.arange(7).astype(dtype), "b": np.arange(12).reshape(3, 4).astype(dtype)}
    _, read = written(tmp_path / "w", model(*(initializer(n, "mlp", a) for n, a in arrays.items())))
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == dtype


def test_bfloat16_is_kept_bit_by_bit(tmp_path: Path) -> None:
    array = np.array([1.5, -2.25, 3e38], ml_dtypes.bfloat16)
    store, _ = written(
        tmp_path / "w", model(initializer("a", "mlp", np.zeros(3, np.uint8)), initializer("b", "mlp", array))
    )
    graph = model(initializer("b", "mlp", array))
    store.point_into_file(graph)
    (value,) = graph.graph.initializers.values()
    assert isinstance(value.const_value, ir.ExternalTensor)
    raw = (tmp_path / "w").read_bytes()[value.const_value.offset :][: array.nbytes]
    assert raw == array.tobytes()


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_codes_of_fewer_bits_are_read_back_through_the_graph(dtype: type[np.generic], tmp_path: Path) -> None:
    """Two of 4 bits lie in a byte, which the file's format has no name for: they are bytes there."""
    array = np.arange(-7, 8).astype(dtype).reshape(3, 5)
    graph = model(initializer("a", "mlp", array), initializer("b", "mlp", np.ones(3, np.float32)))
    store = WeightStore()
    store.add(graph)
    store.write(tmp_path / WEIGHTS_FILE, lambda _: None)
    store.point_into_file(graph)
    pointed = graph.graph.initializers["a"].const_value
    assert isinstance(pointed, ir.ExternalTensor)
    pointed.base_dir = tmp_path
    np.testing.assert_array_equal(pointed.numpy().astype(np.int32), np.arange(-7, 8).reshape(3, 5))
    with safe_open(tmp_path / WEIGHTS_FILE, framework="numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("b"), np.ones(3, np.float32))


def test_every_tensor_is_aligned(tmp_path: Path) -> None:
    graph = model(*(initializer(f"t{size}", "mlp", np.ones(size, np.uint8)) for size in (1, 63, 64, 65, 128, 3)))
    store, _ = written(tmp_path / "w", graph)
    store.point_into_file(graph)
    offsets = [value.const_value.offset for value in graph.graph.initializers.values()]
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert offsets == sorted(set(offsets))


def test_one_name_is_written_once(tmp_path: Path) -> None:
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    blocked = reshape(initializer("w", "head", array), (2, 2, 2))
    store, read = written(tmp_path / "w", model(initializer("w", "mlp", array)), model(blocked, name="drafter"))
    assert store.total_bytes == array.nbytes
    np.testing.assert_array_equal(read["w"], array)
    assert [(weight.owner, weight.part) for weight in store.weights.values()] == [("verifier", "mlp")]


@pytest.mark.parametrize("table_first", [True, False])
def test_a_table_and_its_first_rows_are_the_table(table_first: bool, tmp_path: Path) -> None:
    table = initializer("table", "embedding", np.arange(20, dtype=np.float32).reshape(5, 4))
    models = [model(table), model(first_rows(table, "head", 3), name="drafter")]
    store, read = written(tmp_path / "w", *(models if table_first else models[::-1]))
    assert store.total_bytes == 80
    np.testing.assert_array_equal(read["table"], table.const_value.numpy())
    rows = first_rows(table, "head", 3)
    store.point_into_file(model(rows))
    assert (rows.const_value.offset % ALIGNMENT, rows.const_value.length) == (0, 48)


def test_first_rows_alone_are_all_that_is_written(tmp_path: Path) -> None:
    table = initializer("table", "embedding", np.arange(20, dtype=np.float32).reshape(5, 4))
    _, read = written(tmp_path / "w", model(first_rows(table, "head", 3)))
    np.testing.assert_array_equal(read["table"], table.const_value.numpy()[:3])


def test_two_weights_of_one_name_are_refused() -> None:
    store = WeightStore()
    store.add(model(initializer("w", "mlp", np.zeros(4, np.float32))))
    with refuses(CompileError, "'w' has two sizes: 16 and 20"):
        store.add(model(initializer("w", "mlp", np.zeros(5, np.float32))))


def test_weights_are_read_one_at_a_time_while_writing(tmp_path: Path) -> None:
    """No array is alive when the next one is read: the peak is one tensor."""
    made: list[weakref.ref[Array]] = []

    def read() -> Array:
        assert all(array() is None for array in made)
        array = np.ones((4, 4), np.float32)
        made.append(weakref.ref(array))
        return array

    values = [lazy_initializer(f"w{i}", "mlp", (4, 4), np.dtype(np.float32), read) for i in range(4)]
    advanced: list[int] = []
    store = WeightStore()
    store.add(model(*values))
    store.write(tmp_path / "w", advanced.append)
    assert advanced == [64] * len(made) == [64] * 4


def test_a_weight_that_comes_out_smaller_than_announced(tmp_path: Path) -> None:
    store = WeightStore()
    store.add(model(lazy_initializer("w", "mlp", (4, 4), np.dtype(np.float32), lambda: np.ones((2, 4), np.float32))))
    with refuses(CompileError, "'w' came out as 32 bytes, expected 64"):
        store.write(tmp_path / "w", lambda _: None)
