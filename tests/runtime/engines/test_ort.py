import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Programs, RoundSampling
from specc_runtime.errors import EngineError, OptionError
from specc_runtime.manifest import Manifest
from tests.support.onnx_bundle import CONTEXT, MAX_WIDTH, VOCABULARY, expected_logits, write_onnx_bundle

TEXT = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5]


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return load_programs(open_bundle(write_onnx_bundle(tmp_path / "bundle")))


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


@pytest.mark.parametrize("widths", [[1] * 10, [6, 4], [4, 6], [6, 1, 3], [2, 5, 3]])
def test_logits_are_right_in_every_cut_of_a_text(programs: Programs, widths: list[int]) -> None:
    position = 0
    for width in widths:
        logits = programs.verify(ids(*TEXT[position : position + width]), position, width)
        expected = [expected_logits(TEXT[: position + i + 1]) for i in range(width)]
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)
        position += width


def test_only_the_last_rows_come_back(programs: Programs) -> None:
    assert programs.verify(ids(*TEXT[:4]), 0, 0).shape == (0, VOCABULARY)
    logits = programs.verify(ids(*TEXT[4:9]), 4, 2)
    np.testing.assert_allclose(logits, [expected_logits(TEXT[:n]) for n in (8, 9)], rtol=0, atol=1e-6)


def test_rewinding_overwrites(programs: Programs) -> None:
    programs.verify(ids(*TEXT[:6]), 0, 0)
    programs.verify(ids(6, 6), 3, 0)
    logits = programs.verify(ids(2), 5, 1)
    np.testing.assert_allclose(logits[0], expected_logits([*TEXT[:3], 6, 6, 2]), rtol=0, atol=1e-6)


def test_verifier_and_drafter_have_caches_of_their_own(programs: Programs) -> None:
    programs.verify(ids(*TEXT[:6]), 0, 0)
    programs.catchup("draft", ids(1, 2), 0)
    np.testing.assert_allclose(programs.draft("draft", ids(3), 2), expected_logits([1, 2, 3]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(programs.verify(ids(2), 6, 1)[0], expected_logits([*TEXT[:6], 2]), rtol=0, atol=1e-6)


def test_a_cache_is_written_in_place_and_zeroed_by_reset(programs: Programs) -> None:
    programs.verify(ids(*TEXT[:3]), 0, 0)
    [cache, _] = (array for array, _ in programs._caches._buffers.values())
    assert cache.ravel()[:4].tolist() == [3, 1, 4, 0]
    programs.reset()
    assert not cache.any()


def test_calls_of_a_known_shape_reuse_their_memory(programs: Programs) -> None:
    first = programs.verify(ids(1, 2), 0, 2)
    programs.verify(ids(1), 2, 1)
    again = programs.verify(ids(3, 4), 3, 2)
    assert again.ctypes.data == first.ctypes.data


@pytest.mark.parametrize(("width", "rows"), [(0, 0), (MAX_WIDTH + 1, 1), (2, 3)])
def test_shapes_no_program_takes_are_refused(programs: Programs, width: int, rows: int) -> None:
    with pytest.raises(EngineError, match="takes 1 to 6"):
        programs.verify(np.zeros(width, np.int64), 0, rows)


def test_a_round_binds_every_input(tmp_path: Path) -> None:
    programs = load_programs(open_bundle(write_onnx_bundle(tmp_path / "bundle", with_round=True)), fused=True)
    [program] = programs.rounds
    uniforms = np.array([0.5, 0.25, 0.125, 0.0, 0.125], np.float32)
    sampling = RoundSampling(temperature=10.0, top_k=7, top_p=100.0, min_p=1000.0)
    assert programs.round(program, ids(1, 2), 5, uniforms, sampling).tolist() == [5, 7, 1111]
    assert programs.round(program, ids(1, 0), 6, uniforms, sampling).tolist() == [6]


def test_rounds_are_loaded_only_when_asked_for(tmp_path: Path) -> None:
    root = write_onnx_bundle(tmp_path / "bundle", with_round=True)
    assert load_programs(open_bundle(root)).rounds == ()
    assert Engine.load(root, fused=True).generate([1], SamplingParams(max_new_tokens=1)).finish().ids
    with pytest.raises(EngineError, match="no usable round programs"):
        Engine.load(write_onnx_bundle(tmp_path / "other"), fused=True)


@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_a_whole_generation(tmp_path: Path, gamma: int) -> None:
    engine = Engine.load(write_onnx_bundle(tmp_path / "bundle"), verify="hashes")
    expected = TEXT[:3]
    while len(expected) < CONTEXT:
        expected.append(int(expected_logits(expected).argmax()))
    generation = engine.generate(TEXT[:3], SamplingParams(), gamma=gamma).finish()
    assert generation.ids == expected[3:]
    assert generation.stats.acceptance_rate > 0


def test_a_program_with_an_unknown_requirement_is_left_out(tmp_path: Path) -> None:
    root = write_onnx_bundle(tmp_path / "bundle", requires=("ort>=1.20", "teleport"))
    with pytest.raises(EngineError, match="no usable verify program"):
        Engine.load(root)


def edited(bundle: Bundle, **changes: object) -> Bundle:
    manifest: Manifest = bundle.manifest
    programs = tuple(replace(program, **changes) for program in manifest.programs)
    return replace(bundle, manifest=replace(manifest, programs=programs))


def test_a_manifest_that_lists_other_inputs_is_refused(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    with pytest.raises(EngineError, match="the ort engine binds"):
        load_programs(edited(bundle, inputs=bundle.manifest.programs[0].inputs[:2]))


def test_a_state_dtype_without_caches_is_refused(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    state = replace(bundle.manifest.programs[0].state[0], dtype="int4")
    with pytest.raises(EngineError, match="no caches of dtype int4"):
        load_programs(edited(bundle, state=(state,))).verify(ids(1), 0, 1)


def test_caches_it_can_not_round_into_are_not_recomputed(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    assert load_programs(bundle).full_precision() is None
    verify = next(p for p in bundle.manifest.programs if p.kind == "verify")
    state = tuple(replace(s, role=f"recomputed.{s.role}") for s in verify.state)
    programs = (*bundle.manifest.programs, replace(verify, id="r", kind="recompute", state=state))
    loaded = load_programs(replace(bundle, manifest=replace(bundle.manifest, programs=programs)))
    with pytest.raises(EngineError, match=r"'r': the ort engine rounds float32 to float16, not .* to float32"):
        loaded.full_precision()


def test_a_damaged_program_is_named(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    bundle.path("programs/model.onnx").write_bytes(b"no protobuf at all")
    with pytest.raises(EngineError, match=r"model.onnx: .*; re-copy or re-compile the bundle"):
        load_programs(bundle)


def test_weights_outside_the_bundle_are_refused(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    inside, outside = b"weights.safetensors", b"../weights.data.bin"  # of equal length, to edit the file as bytes
    (tmp_path / "weights.data.bin").write_bytes(bundle.path(inside.decode()).read_bytes())
    program = bundle.path("programs/model.onnx")
    program.write_bytes(program.read_bytes().replace(inside, outside))
    with pytest.raises(EngineError, match=r"model\.onnx: .*escapes model directory"):
        load_programs(bundle)


def test_a_failing_call_is_named(programs: Programs) -> None:
    with pytest.raises(EngineError, match=r"model.onnx: "):
        programs.verify(ids(1, 2), 1000, 1)


def test_a_missing_engine_is_one_clear_line() -> None:
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "import specc_runtime.errors as errors\n"
        "try: import specc_runtime.engines.ort\n"
        "except errors.EngineError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert 'pip install "onnxruntime>=1.32"' in done.stdout


def test_an_old_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.__version__", "1.17.3")
    with pytest.raises(EngineError, match=r"1\.17\.3 is too old"):
        load_programs(open_bundle(write_onnx_bundle(tmp_path / "bundle")))


def test_unknown_backends_and_thread_counts(tmp_path: Path) -> None:
    bundle = open_bundle(write_onnx_bundle(tmp_path / "bundle"))
    for threads in (0, -1, 129, 10**30, 1.5, "2", True):
        with pytest.raises(OptionError, match="threads is"):
            load_programs(bundle, threads=threads)
    with pytest.raises(EngineError, match="'abacus': this runtime has engines for ort"):
        load_programs(replace(bundle, manifest=replace(bundle.manifest, backend="abacus")))
