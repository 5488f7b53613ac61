"""Programs of a compiled bundle: what there is, in which order, over which weights."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from specc.backends.migraphx import BACKEND
from specc.errors import OptionError
from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import Manifest, Program
from tests.support.tiny_models import compiled, tiny_model

GAMMAS = (1, 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture(scope="module")
def bundle(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("emit") / "b"
    compiled(model, output, precision="reference,draft=int8", target="mi300x", gammas=GAMMAS, measure=True)
    return output


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> Manifest:
    return open_bundle(bundle, verify="hashes").manifest


def test_programs(manifest: Manifest) -> None:
    found = [(p.kind, p.drafter, p.width, p.accept) for p in manifest.programs]
    assert found == [
        ("prefill", None, 48, "host"),
        *(("verify", None, width, "host") for width in (1, 2, 4)),
        ("catchup", "drafter", 48, "host"),
        *(("draft", "drafter", width, "host") for width in (1, 2)),
        *(("round", "drafter", gamma + 1, "graph") for gamma in GAMMAS),
    ]
    assert not any(p.built for p in manifest.programs)
    assert len({p.file for p in manifest.programs}) == len(manifest.programs)
    assert manifest.drafters["drafter"].measured is None  # nothing here runs them


def test_rows_of_logits(manifest: Manifest) -> None:
    rows = {(p.kind, p.width): [o.shape[1] for o in p.outputs] for p in manifest.programs if p.kind != "round"}
    assert rows == {
        ("prefill", 48): [1],
        **{("verify", width): [width] for width in (1, 2, 4)},
        ("catchup", 48): [],
        ("draft", 1): [1],
        ("draft", 2): [1],
    }


def loaded(bundle: Path, program: Program) -> onnx.ModelProto:
    return onnx.load(bundle / program.file, load_external_data=False)


def test_inputs_and_outputs_stand_in_the_manifests_order(manifest: Manifest, bundle: Path) -> None:
    """MIGraphX keeps no names of outputs: the place is all there is."""
    for program in manifest.programs:
        graph = loaded(bundle, program).graph
        listed = [*(t.name for t in program.outputs), *(s.output for s in program.state)]
        assert [v.name for v in graph.output] == listed
        assert {v.name for v in graph.input} == {t.name for t in (*program.inputs, *program.state)}
        assert all(isinstance(dim, int) for t in (*program.inputs, *program.outputs) for dim in t.shape)
        assert not any(s.also for s in program.state)


def test_every_file_is_plain_onnx_beside_its_weights(manifest: Manifest, bundle: Path) -> None:
    for program in manifest.programs:
        assert "/" not in program.file
        onnx.checker.check_model(bundle / program.file, full_check=True)
        for tensor in loaded(bundle, program).graph.initializer:
            assert [entry.key for entry in tensor.external_data] == ["location", "offset", "length"]
            assert (bundle / tensor.external_data[0].value).is_file()


def test_the_drafters_products_are_int8_and_the_verifiers_are_not(manifest: Manifest, bundle: Path) -> None:
    for program in manifest.programs:
        ops = [node.op_type for node in loaded(bundle, program).graph.node]
        per_step = (
            5  # qkv, output, gate_up and down of one layer, and the head; known tokens leave keys and values only
        )
        expected = {"draft": per_step, "catchup": 1, "round": per_step * ((program.width or 1) - 1)}
        assert ops.count("MatMulInteger") == expected.get(program.kind, 0)


def test_8_bit_codes_lie_in_the_weights_file_once(manifest: Manifest, bundle: Path) -> None:
    """Core graph and programs read the same bytes."""

    def places(path: str) -> dict[str, tuple[str, ...]]:
        held = onnx.load(bundle / path, load_external_data=False).graph.initializer
        return {t.name: tuple(e.value for e in t.external_data)[1:] for t in held if t.data_type == TensorProto.INT8}

    core = places("core/drafter.onnx")
    assert len(core) == 5
    (draft,) = (p for p in manifest.programs if p.kind == "draft" and p.width == 1)
    assert places(draft.file) == core


def test_caches_default_to_the_16_bits_that_its_interface_takes(model: Path, tmp_path: Path) -> None:
    report = compiled(model, tmp_path / "b", precision="balanced", target="mi300x")
    assert {s.dtype for p in report.manifest.programs for s in p.state} == {"float16"}


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        ("int8", "'migraphx' builds 8-bit weights in drafters only"),
        ("reference,mlp=int8", "'migraphx' builds 8-bit weights in drafters only"),
        ("reference,kv=bf16", "kv=bf16 is not built by backend 'migraphx'; known: fp16, fp32"),
    ],
)
def test_precisions_it_has_no_form_for_are_refused(precision: str, said: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=said):
        compiled(model, tmp_path / "b", precision=precision, target="mi300x")
    assert not (tmp_path / "b").exists()


def test_the_record_names_what_is_emitted(manifest: Manifest) -> None:
    for program in manifest.programs:
        assert set(program.options) == set(BACKEND.programs[program.kind])
