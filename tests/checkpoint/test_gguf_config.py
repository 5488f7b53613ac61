import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from specc.models.families import describe
from tests.support.gguf_files import decoder_metadata, write_gguf
from tests.support.refusals import refuses

EMBEDDING = {"token_embd.weight": np.ones((300, 64), np.float32)}


def config_of(tmp_path, metadata, **tensors):
    return open_checkpoint(str(write_gguf(tmp_path / "x.gguf", metadata, EMBEDDING | tensors))).config


def test_fields_of_config_json(tmp_path):
    metadata = decoder_metadata() | {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    assert config_of(tmp_path, metadata) == {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "max_position_embeddings": 128,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "vocab_size": 300,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
    }


def test_what_only_the_tensors_tell(tmp_path):
    biases = {"blk.0.attn_q.bias": np.ones(64, np.float32), "blk.0.ffn_up.bias": np.ones(96, np.float32)}
    config = config_of(tmp_path, decoder_metadata(), **biases, **{"output.weight": np.ones((300, 64), np.float32)})
    assert (config["attention_bias"], config["mlp_bias"], config["tie_word_embeddings"]) == (True, True, False)


def test_the_vocabulary_is_the_embeddings_whatever_the_metadata_says(tmp_path):
    assert config_of(tmp_path, decoder_metadata(vocab_size=257))["vocab_size"] == 300


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"attention__head_count_kv": None}, {"num_key_value_heads": 4}),
        ({"attention__key_length": 32, "attention__value_length": 32}, {"head_dim": 32}),
        ({"rope__freq_base": None}, {"rope_theta": 10000.0}),
        ({"rope__freq_base": 1e6}, {"rope_theta": 1e6}),
        ({"attention__layer_norm_rms_epsilon": 1e-6}, {"rms_norm_eps": 1e-6}),
        ({"attention__sliding_window": 64}, {"model_type": "mistral", "sliding_window": 64}),
        ({"attention__sliding_window": 0, "expert_count": 0, "attention__causal": True}, {"model_type": "llama"}),
    ],
)
def test_optional_metadata(tmp_path, changes, expected):
    config = config_of(tmp_path, decoder_metadata(**changes))
    assert {key: config[key] for key in expected} == expected


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_other_architectures_keep_their_name(tmp_path, architecture):
    config = config_of(tmp_path, decoder_metadata(architecture))
    assert config["model_type"] == architecture
    assert "mlp_bias" not in config


@pytest.mark.parametrize(
    ("architecture", "changes", "model_type"),
    [
        ("llama", {}, "llama"),
        ("llama", {"attention__sliding_window": 64}, "mistral"),
        ("llama", {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}, "llama"),
        ("qwen2", {}, "qwen2"),
        ("qwen3", {"attention__key_length": 32}, "qwen3"),
    ],
)
def test_rebuilt_configs_hold_no_field_the_model_families_refuse(tmp_path, architecture, changes, model_type):
    config = config_of(tmp_path, decoder_metadata(architecture, **changes))
    assert describe(config, "config.json").model_type == model_type


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"block_count": None}, "has no metadata 'llama.block_count'"),
        ({"block_count": "2"}, "'llama.block_count' is of type str, expected an integer"),
        ({"block_count": 0}, "'llama.block_count' is 0, expected 1 or more"),
        ({"attention__head_count": 5}, "embedding_length 64 does not divide into 5 heads"),
        ({"attention__head_count_kv": np.array([1, 2], np.int32)}, "expected an integer"),
        ({"attention__value_length": 8}, "attention.value_length is 8, but heads are 16 wide"),
        ({"rope__dimension_count": 8}, "rope.dimension_count is 8, but heads are 16 wide"),
        ({"rope__freq_base": -1.0}, "rope.freq_base is -1.0"),
        ({"rope__freq_base": float("nan")}, "rope.freq_base' is nan, expected a finite number"),
        ({"attention__layer_norm_rms_epsilon": float("inf")}, "epsilon' is inf, expected a finite number"),
        ({"expert_count": 8}, "'llama.expert_count' = 8"),
        ({"logit_scale": 0.5}, "'llama.logit_scale' = 0.5"),
        ({"rope__scale_linear": 4.0}, "'llama.rope.scale_linear' = 4.0"),
        ({"attention__causal": False}, "'llama.attention.causal' = False"),
    ],
)
def test_metadata_that_can_not_be_or_is_not_known_is_refused_by_key(tmp_path, changes, found):
    with refuses(CheckpointError, tmp_path / "x.gguf", found):
        config_of(tmp_path, decoder_metadata(**changes))


def test_window_that_does_not_say_for_which_layers(tmp_path):
    with refuses(CheckpointError, tmp_path / "x.gguf", "qwen2.attention.sliding_window is 64"):
        config_of(tmp_path, decoder_metadata("qwen2", attention__sliding_window=64))


def test_unknown_architecture_is_refused_with_those_known(tmp_path):
    with refuses(CheckpointError, tmp_path / "x.gguf", "general.architecture 'mamba'", "llama, qwen2, qwen3"):
        config_of(tmp_path, decoder_metadata("mamba"))


@pytest.mark.parametrize("tensors", [{}, {"token_embd.weight": np.ones(8, np.float32)}])
def test_file_without_an_embedding(tmp_path, tensors):
    path = write_gguf(tmp_path / "x.gguf", decoder_metadata(), {"output_norm.weight": np.ones(8, np.float32)} | tensors)
    with refuses(CheckpointError, path, "no two-dimensional tensor 'token_embd.weight'"):
        open_checkpoint(str(path))
