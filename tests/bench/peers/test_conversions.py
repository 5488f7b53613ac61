from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Form

from specc.bench.peers.checkpoint_folder import write_checkpoint_folder
from specc.bench.peers.conversions import converted
from specc.bench.peers.gguf_form import gguf_source, write_gguf
from specc.checkpoint import open_checkpoint
from specc.errors import BenchError
from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.gguf_files import decoder_metadata, decoder_tensors, tokenizer_metadata
from tests.support.gguf_files import write_gguf as write_small_gguf
from tests.support.refusals import refuses


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    config = decoder_config()
    return write_hf_checkpoint(tmp_path / "hf", config, decoder_weights(config), tiny_tokenizer_json(300))


def test_a_conversion_is_made_once(checkpoint: Path, tmp_path: Path) -> None:
    made = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("converted")

    one = converted(tmp_path / "cache", str(checkpoint), "form.bin", make)
    assert one.read_text() == "converted"
    assert converted(tmp_path / "cache", str(checkpoint), "form.bin", make) == one
    assert converted(tmp_path / "cache", str(checkpoint), "other.bin", make) != one
    assert len(made) == 2


def test_a_conversion_that_fails_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    def make(path: Path) -> None:
        path.mkdir()
        (path / "half").write_text("x")
        raise BenchError("no")

    with refuses(BenchError, "no"):
        converted(tmp_path / "cache", str(checkpoint), "form", make)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_folder_holds_the_checkpoints_values(checkpoint: Path, tmp_path: Path) -> None:
    write_checkpoint_folder(str(checkpoint), tmp_path / "out")
    before, after = open_checkpoint(str(checkpoint)), open_checkpoint(str(tmp_path / "out"))
    assert after.config == before.config
    assert set(after.weights) == set(before.weights)
    assert all(np.array_equal(after.weights[name].numpy(), before.weights[name].numpy()) for name in before.weights)
    assert after.tokenizer is not None


@pytest.mark.parametrize(("form", "error"), [(Form.F32, 0.0), (Form.F16, 1e-3), (Form.Q8_0, 0.02)])
def test_gguf_in_another_form(form: Form, error: float, tmp_path: Path) -> None:
    tensors = decoder_tensors(decoder_weights(decoder_config()), heads=4, kv_heads=2, moved=True)
    metadata = decoder_metadata() | tokenizer_metadata(tiny_tokenizer_json(300))
    source = write_small_gguf(tmp_path / "small.gguf", metadata, tensors)
    write_gguf(source, form, tmp_path / "out.gguf")
    before, after = gguf.GGUFReader(source), gguf.GGUFReader(tmp_path / "out.gguf")
    kept = {name for name in before.fields if not name.startswith(("GGUF.", "general.file", "general.quant"))}
    assert all(before.fields[name].contents() == after.fields[name].contents() for name in kept)
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert new.name == old.name
        assert new.tensor_type == (form if len(old.shape) > 1 else Form.F32)
        values, expected = (gguf.quants.dequantize(t.data, t.tensor_type) for t in (new, old))
        assert np.abs(values - expected).max() <= error * np.abs(expected).max()


def test_only_gguf_can_be_requantised(checkpoint: Path) -> None:
    with refuses(BenchError, "reads GGUF", "--model"):
        gguf_source(str(checkpoint))
