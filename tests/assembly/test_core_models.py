from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from specc.assembly.core_models import DrafterPlan, drafter_core, verifier_core
from specc.assembly.core_text import CoreText
from specc.assembly.sources import ModelSource, open_model, slice_of
from specc.backends.record import CoreModel
from specc.core.initializers import part_of
from specc.options import Precision, parse_precision
from tests.support.tiny_models import TOKENS, tiny_model

ROWS = 40


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return open_model(str(tiny_model(tmp_path_factory.mktemp("m"), vocab_size=TOKENS + 20)), ())


def precision(text: str) -> Precision:
    return parse_precision(text).resolve(("fp32",), "fp32")


def dtypes(core: CoreModel) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for value in core.graph.graph.initializers.values():
        assert value.dtype is not None
        found.setdefault(part_of(value), set()).add(value.dtype.name)
    return found


def test_pads_are_cut_off(source: ModelSource) -> None:
    core = verifier_core(source, precision("reference"), ROWS)
    assert (core.role, core.head_rows, core.cache_rows) == ("verifier", TOKENS, ROWS)
    logits = next(value for value in core.graph.graph.outputs if value.name == "logits")
    assert logits.shape == ir.Shape([1, "R", TOKENS])


def test_every_part_is_stored_as_asked(source: ModelSource) -> None:
    core = verifier_core(source, precision("attention=fp16,mlp=int8,head=bf16,embedding=fp16,kv=fp16"), ROWS)
    assert dtypes(core) == {
        "attention": {"FLOAT16"},
        "mlp": {"UINT8", "FLOAT"},
        "head": {"BFLOAT16"},
        "embedding": {"FLOAT16"},
        "norm": {"FLOAT"},
        "rope": {"FLOAT"},
    }
    assert {state.dtype for state in core.state()} == {"float16"}


def test_a_drafter_follows_the_draft_part(source: ModelSource) -> None:
    plan = DrafterPlan("d", "slice:1", slice_of(source, 1), ROWS, TOKENS)
    core = drafter_core(plan, precision("attention=fp16,mlp=fp16,head=fp16,draft=int8,embedding=bf16"), ROWS)
    found = dtypes(core)
    assert found["embedding"] == {"BFLOAT16"}
    assert all(found[part] == {"UINT8", "FLOAT"} for part in ("attention", "mlp", "head"))
    assert core.role == "d"


def test_a_slice_names_its_weights_as_the_verifier_does(source: ModelSource) -> None:
    verifier = verifier_core(source, precision("int8"), ROWS)
    drafter = drafter_core(DrafterPlan("d", "slice:1", slice_of(source, 1), ROWS, TOKENS), precision("int8"), ROWS)
    assert set(drafter.graph.graph.initializers) < set(verifier.graph.graph.initializers)


def test_a_trimmed_head_gives_the_columns_of_its_ids(source: ModelSource) -> None:
    kept, text = np.array([3, 7, 100, 299], np.int32), np.array([1, 2, 3])
    whole = DrafterPlan("d", "slice:2", slice_of(source, 2), ROWS, TOKENS)
    trimmed = DrafterPlan("d", "slice:2", slice_of(source, 2), ROWS, kept)
    cores = [drafter_core(plan, precision("reference"), ROWS) for plan in (whole, trimmed)]
    assert [core.head_rows for core in cores] == [TOKENS, 4]
    all_logits, kept_logits = (CoreText(core.graph).logits(text) for core in cores)
    np.testing.assert_allclose(kept_logits, all_logits[:, kept], rtol=0, atol=1e-5)


def test_a_misspelt_checkpoint_path_is_no_part_of_the_graph(source: ModelSource, tmp_path: Path) -> None:
    """Nothing of the machine it was compiled on gets into the graph."""
    core = verifier_core(source, precision("reference"), ROWS)
    assert str(source.checkpoint.path).encode() not in ir.to_proto(core.graph).SerializeToString()
