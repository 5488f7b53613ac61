import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.checkpoints import decoder_config, decoder_weights
from tests.support.gguf_files import decoder_metadata, decoder_tensors, write_gguf
from tests.support.refusals import refuses

CONFIGS = {
    "llama": decoder_config(),
    "llama, biases": decoder_config(attention_bias=True),
    "llama, tied": decoder_config(tie_word_embeddings=True),
    "qwen2": decoder_config(model_type="qwen2"),
    "qwen3": decoder_config(model_type="qwen3", head_dim=128),
}


def write_decoder(path, config, **extra):
    architecture = config["model_type"]
    key_length = None if config["head_dim"] == 16 else config["head_dim"]
    tensors = decoder_tensors(decoder_weights(config), heads=4, kv_heads=2, moved=architecture == "llama")
    metadata = decoder_metadata(architecture, attention__key_length=key_length, vocab_size=300)
    return write_gguf(path, metadata, tensors | extra)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_tensor_comes_back_under_its_hugging_face_name_with_its_rows_in_place(tmp_path, name):
    expected = decoder_weights(CONFIGS[name])
    weights = open_checkpoint(str(write_decoder(tmp_path / "x.gguf", CONFIGS[name]))).weights
    assert set(weights) == set(expected)
    for key, array in expected.items():
        np.testing.assert_array_equal(weights[key].numpy(), array, strict=True)


def test_rows_of_quantised_q_and_k_are_put_back_too(tmp_path):
    weights = decoder_weights(decoder_config(hidden_size=64))
    plain = decoder_tensors(weights, heads=4, kv_heads=2, moved=False)
    moved = decoder_tensors(weights, heads=4, kv_heads=2, moved=True)
    names = ["blk.0.attn_q.weight", "blk.0.attn_k.weight"]
    quantised = {name: (moved[name], Type.Q8_0) for name in names}
    opened = open_checkpoint(str(write_gguf(tmp_path / "x.gguf", decoder_metadata(), moved | quantised))).weights
    for part, name in zip("qk", names, strict=True):
        np.testing.assert_allclose(
            opened[f"model.layers.0.self_attn.{part}_proj.weight"].numpy(), plain[name], rtol=0, atol=0.02
        )  # half a step of 8 bits over about ±4; a row in the wrong place is off by whole units


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.ffn_gate_inp.weight",
        "blk.0.attn_q_norm.weight",
        "attn_q.weight",
        "blk.x.attn_q.weight",
        "output.scale",
        "",
    ],
)
def test_tensor_that_the_architecture_lacks_is_refused_by_name(tmp_path, name):
    path = write_decoder(tmp_path / "x.gguf", decoder_config(), **{name: np.ones(4, np.float32)})
    with refuses(CheckpointError, path, f"tensor {name!r} is no part of the llama architecture"):
        open_checkpoint(str(path))


def test_rows_that_do_not_divide_into_the_heads(tmp_path):
    path = write_decoder(
        tmp_path / "x.gguf", decoder_config(), **{"blk.0.attn_q.weight": np.ones((30, 64), np.float32)}
    )
    with refuses(CheckpointError, path, "'blk.0.attn_q.weight' has 30 rows, which are not 4 heads of even size"):
        open_checkpoint(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "llama, tied", "qwen2", "qwen3"])  # transformers drops a llama's biases
def test_every_tensor_equals_transformers_own_reading(tmp_path, name):
    from transformers import AutoModelForCausalLM

    path = write_decoder(tmp_path / "x.gguf", CONFIGS[name])
    expected = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name).state_dict()
    weights = open_checkpoint(str(path)).weights
    assert expected.keys() - weights.keys() <= {"lm_head.weight"}
    for key, tensor in weights.items():
        np.testing.assert_array_equal(tensor.numpy(), expected[key].numpy(), strict=True)
