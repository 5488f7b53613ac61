"""Small cases by hand; that whole bundles add up to the byte is tested in tests/pipeline/test_manifest.py."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.assembly.accounting import engine_copies, precision_table, shared_parts
from specc.backends.record import CoreModel
from specc.bundle.weight_store import WeightStore
from specc.core.building import value
from specc.core.initializers import initializer
from specc_runtime.manifest import FileEntry, PartPrecision, Program
from tests.support.tensorrt_cores import core as decoder_core


def core(role: str, weights: dict[str, tuple[str, type[Any], int]], cache_rows: int = 0) -> CoreModel:
    """weights: part, dtype and size by name. cache_rows: of one fp16 cache, if any."""
    values = [initializer(name, part, np.zeros(size, dtype)) for name, (part, dtype, size) in weights.items()]
    caches = [value("past.0.key", [1, 2, cache_rows, 4], ir.DataType.FLOAT16)] if cache_rows else []
    graph = ir.Graph(caches, [], nodes=[], initializers=values, opset_imports={"": 24}, name=role)
    return CoreModel(role, ir.Model(graph, ir_version=13), head_rows=1, cache_rows=cache_rows)


tied_core = partial(decoder_core, tie_word_embeddings=True)


def table(*models: CoreModel, others: tuple[CoreModel, ...] = ()) -> list[PartPrecision]:
    store = WeightStore()
    for model in (*models, *others):
        store.add(model.graph)
    return list(precision_table(store.weights, models, lambda stored: stored.widened))


VERIFIER = core("verifier", {"w": ("mlp", np.float32, 10), "n": ("norm", np.float32, 3)}, cache_rows=5)


def test_rows_by_part_then_the_caches() -> None:
    assert table(VERIFIER) == [
        PartPrecision("verifier.mlp", "fp32", "fp32", 40),
        PartPrecision("verifier.norm", "fp32", "fp32", 12),
        PartPrecision("verifier.kv", "fp16", "fp32", 2 * 2 * 5 * 4),
    ]


def test_features_count_once_for_the_drafter_that_reads_them() -> None:
    def keeping(role: str, name: str) -> CoreModel:
        state = [value("past.0.key", [1, 2, 5, 4], ir.DataType.FLOAT16), value(name, [1, 5, 8], ir.DataType.FLOAT)]
        graph = ir.Graph(state, [], nodes=[], opset_imports={"": 24}, name=role)
        return CoreModel(role, ir.Model(graph, ir_version=13), head_rows=1, cache_rows=5)

    assert table(keeping("verifier", "past.features.d"), keeping("d", "past.features")) == [
        PartPrecision("verifier.kv", "fp16", "fp32", 2 * 2 * 5 * 4),
        PartPrecision("d.kv", "fp16", "fp32", 2 * 2 * 5 * 4),
        PartPrecision("d.feature_rows", "fp32", "fp32", 4 * 5 * 8),
    ]


def test_a_weight_counts_for_its_first_reader() -> None:
    drafter = core("drafter", {"w": ("mlp", np.float32, 10), "own": ("head", np.float16, 4)})
    assert table(VERIFIER, drafter)[3:] == [PartPrecision("drafter.head", "fp16", "fp32", 8)]


def test_scales_count_with_their_codes_and_nothing_else_does() -> None:
    quantised = core(
        "verifier",
        {
            "a.codes": ("mlp", np.uint8, 64),
            "a.scale": ("mlp", np.float32, 1),
            "left": ("mlp", np.float32, 6),
            "b.scale": ("mlp", np.float32, 2),
        },
    )
    assert table(quantised) == [
        PartPrecision("verifier.mlp", "int8", "int8", 68),
        PartPrecision("verifier.mlp", "fp32", "fp32", 32),
    ]


def test_what_only_a_program_holds_is_counted_too() -> None:
    program = core("round", {"w": ("mlp", np.float32, 10), "ids": ("head", np.int64, 3)})
    assert table(VERIFIER, others=(program,))[-1] == PartPrecision("round.head", "int64", "int64", 24)


def test_a_part_is_shared_if_every_weight_of_it_is() -> None:
    drafter = core(
        "drafter", {"w": ("mlp", np.float32, 10), "n": ("norm", np.float32, 3), "m": ("norm", np.float32, 3)}
    )
    assert shared_parts(VERIFIER, drafter) == ("mlp",)


def test_a_part_is_computed_in_what_the_backend_says_of_it() -> None:
    model = core("verifier", {"w": ("mlp", np.float16, 8), "q.codes": ("head", np.uint8, 4)}, cache_rows=5)
    store = WeightStore()
    store.add(model.graph)
    rows = precision_table(store.weights, [model], lambda part: f"{part.part}, {part.dtype} beside {part.caches}")
    assert [(p.part, p.stored, p.computed) for p in rows] == [
        ("verifier.mlp", "fp16", "mlp, fp16 beside fp16"),
        ("verifier.head", "int8", "head, int8 beside fp16"),
        ("verifier.kv", "fp16", "kv, fp16 beside fp16"),
    ]


@pytest.mark.parametrize(("wide_head", "computed"), [(False, "fp16"), (True, "fp32")])
def test_a_table_that_is_the_head_is_multiplied_unless_the_head_is_to_be_wide(wide_head: bool, computed: str) -> None:
    model = replace(tied_core("verifier", weights=ir.DataType.FLOAT16), wide_head=wide_head)
    store = WeightStore()
    store.add(model.graph)
    rows = precision_table(store.weights, [model], lambda s: s.dtype if s.is_multiplied else s.widened)
    assert {p.part: p.computed for p in rows if p.stored == "fp16"} == {
        "verifier.embedding": computed,
        "verifier.attention": "fp16",
        "verifier.mlp": "fp16",
    }


def test_engines_hold_copies_of_their_weights() -> None:
    def program(name: str, file: str, built: bool) -> Program:
        return Program(id=name, kind="verify", file=file, inputs=(), outputs=(), built=built)

    files = {"programs/v.engine": FileEntry(1500, ""), "programs/r.engine": FileEntry(2000, "")}
    programs = [program("a", "programs/v.engine", True), program("b", "programs/v.engine", True)]
    sentence = engine_copies([*programs, program("c", "programs/r.engine", True)], files)
    assert sentence is not None
    assert sentence.startswith("2 engines hold a copy each of their weights: 3,500 bytes")
    assert engine_copies([program("d", "programs/v.onnx", False)], files) is None
