import numpy as np
import pytest
from gguf.constants import TokenType
from tokenizers import Tokenizer

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.gguf_files import decoder_metadata, tokenizer_metadata, write_gguf
from tests.support.refusals import refuses

EMBEDDING = {"token_embd.weight": np.ones((932, 64), np.float32)}
SPECIAL = ("<s>", "</s>", "<turn>")
ORIGINAL = tiny_tokenizer_json(932, SPECIAL)
BOS, EOS, TURN = 929, 930, 931
TEXTS = ["abc  naïve 😀\n\n x", "<s>ab</s> <turn>", "aabbccdd zz 12", ""]
SENTENCEPIECE = {"<unk>": 2, "<s>": 3, "</s>": 3, "<0x0A>": 6, "▁": 1, "a": 1, "b": 1, "▁a": 1, "ab": 1, "<x>": 4}


def key(name):
    return f"tokenizer.ggml.{name}"


def open_with(path, metadata):
    """The tokenizer of a file with this tokenizer metadata; entries of None are left out."""
    entries = {name: value for name, value in metadata.items() if value is not None}
    return open_checkpoint(str(write_gguf(path / "x.gguf", decoder_metadata() | entries, EMBEDDING))).tokenizer


def byte_level(**changes):
    ids = {key("bos_token_id"): BOS, key("eos_token_id"): EOS}
    return tokenizer_metadata(ORIGINAL) | ids | {key(name): value for name, value in changes.items()}


def sentencepiece(**changes):
    tokens = list(SENTENCEPIECE)
    return {
        key("model"): "llama",
        key("tokens"): tokens,
        key("token_type"): np.array(list(SENTENCEPIECE.values()), np.int32),
        key("scores"): -np.arange(len(tokens), dtype=np.float32),
        key("bos_token_id"): 1,
        key("eos_token_id"): 2,
    } | {key(name): value for name, value in changes.items()}


def test_byte_level_ids_equal_the_originals(tmp_path):
    rebuilt = Tokenizer.from_str(open_with(tmp_path, byte_level()).json)
    original = Tokenizer.from_str(ORIGINAL)
    assert rebuilt.get_vocab() == original.get_vocab()
    for text in TEXTS:
        assert rebuilt.encode(text).ids == original.encode(text).ids
        assert rebuilt.decode(rebuilt.encode(text).ids, skip_special_tokens=False) == text


def test_special_ids_template_and_bos(tmp_path):
    tokenizer = open_with(
        tmp_path,
        byte_level(eot_token_id=TURN, eom_token_id=EOS, padding_token_id=0, add_bos_token=True)
        | {"tokenizer.chat_template": "{{ bos_token }}"},
    )
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.pad_id) == (BOS, (EOS, TURN), 0)
    assert tokenizer.chat_template == "{{ bos_token }}"
    assert tokenizer.add_bos
    assert Tokenizer.from_str(tokenizer.json).encode("a").ids == [BOS, 0]


@pytest.mark.parametrize(
    ("changes", "add_bos"),
    [
        ({"pre": "gpt-2"}, False),
        ({"pre": "smollm"}, False),
        ({"pre": "qwen2"}, False),
        ({"pre": "llama-bpe"}, True),
        ({"pre": "tekken"}, True),
        ({"pre": "llama-bpe", "add_bos_token": False}, False),
        ({"pre": "llama-bpe", "bos_token_id": None}, False),
        ({"pre": "gpt-2", "add_bos_token": True}, True),
        ({"pre": "gpt-2", "add_bos_token": True, "add_eos_token": True}, True),
    ],
)
def test_bos_is_added_as_the_file_or_else_its_rule_says_and_eos_never(tmp_path, changes, add_bos):
    tokenizer = open_with(tmp_path, byte_level(**changes))
    assert tokenizer.add_bos == add_bos
    assert Tokenizer.from_str(tokenizer.json).encode("").ids == ([BOS] if add_bos else [])


def test_control_tokens_are_special_and_user_defined_ones_are_not(tmp_path):
    kinds = tokenizer_metadata(ORIGINAL)[key("token_type")].copy()
    kinds[TURN] = TokenType.USER_DEFINED
    tokenizer = Tokenizer.from_str(open_with(tmp_path, byte_level(token_type=kinds)).json)
    assert tokenizer.encode("a<turn></s>b").ids == [0, TURN, EOS, 1]
    assert tokenizer.decode([0, TURN, EOS, 1]) == "a<turn>b"


def test_fillers_of_a_padded_vocabulary_are_left_out(tmp_path):
    metadata = byte_level()
    metadata[key("tokens")] = [*metadata[key("tokens")], "[PAD932]"]
    metadata[key("token_type")] = np.append(metadata[key("token_type")], np.int32(TokenType.UNUSED))
    tokenizer = Tokenizer.from_str(open_with(tmp_path, metadata).json)
    assert tokenizer.get_vocab_size() == 932
    assert tokenizer.id_to_token(932) is None


def test_whole_tokens_win_over_merges_only_where_the_rule_says(tmp_path):
    """Without the merge of "a" and "b" the token "ab" is reached only by taking pieces whole."""
    merges = [merge for merge in tokenizer_metadata(ORIGINAL)[key("merges")] if merge != "a b"]
    ids = {}
    for pre in ("qwen2", "llama-bpe"):
        tokenizer = open_with(tmp_path, byte_level(merges=merges, pre=pre, add_bos_token=False))
        ids[pre] = Tokenizer.from_str(tokenizer.json).encode("ab").ids
    assert ids == {"qwen2": [0, 1], "llama-bpe": [Tokenizer.from_str(ORIGINAL).token_to_id("ab")]}


def test_sentencepiece_by_hand(tmp_path):
    tokenizer = open_with(tmp_path, sentencepiece())
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.add_bos) == (1, (2,), True)
    loaded = Tokenizer.from_str(tokenizer.json)
    assert loaded.encode("ab a").tokens == ["<s>", "▁a", "b", "▁a"]  # "▁a" scores above "ab"
    assert loaded.encode("\n").tokens == ["<s>", "▁", "<0x0A>"]
    assert loaded.encode("a<x>a").tokens == ["<s>", "▁a", "<x>", "▁a"]
    assert loaded.encode("éé").tokens == ["<s>", "▁", "<unk>"]  # no bytes of é in this vocabulary; unknowns fuse
    assert loaded.decode(loaded.encode("a\nb a").ids) == "a\nb a"


def test_sentencepiece_without_a_space_prefix(tmp_path):
    loaded = Tokenizer.from_str(open_with(tmp_path, sentencepiece(add_space_prefix=False)).json)
    assert loaded.encode("ab a").tokens == ["<s>", "ab", "▁a"]
    assert loaded.decode(loaded.encode(" ab").ids) == " ab"


@pytest.mark.parametrize("model", [None, "none"])
def test_file_without_a_tokenizer(tmp_path, model):
    assert open_with(tmp_path, {key("model"): model}) is None


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (byte_level(model="rwkv"), "tokenizer.ggml.model 'rwkv' is not gpt2 or llama"),
        (byte_level(pre="chatglm-bpe"), "tokenizer.ggml.pre 'chatglm-bpe' is not one specc knows (gpt-2, smollm"),
        (byte_level(pre=None), "has no metadata 'tokenizer.ggml.pre'"),
        (byte_level(merges=None), "has no metadata 'tokenizer.ggml.merges'"),
        (byte_level(tokens=None), "has no metadata 'tokenizer.ggml.tokens'"),
        (byte_level(token_type=None), "has no metadata 'tokenizer.ggml.token_type'"),
        (byte_level(token_type=np.ones(3, np.int32)), "has 932 entries, tokenizer.ggml.token_type 3"),
        (byte_level(merges=["a b", "abc"]), "merges holds 'abc', not two tokens"),
        (byte_level(merges=["a b c"]), "merges holds 'a b c', not two tokens"),
        (byte_level(merges=["a zzz"]), "its tokenizer: not a tokenizer"),
        (byte_level(tokens=["a", "b", "a"], token_type=np.ones(3, np.int32)), "token 2 'a' is also token 0"),
        (byte_level(tokens=["a", ""], token_type=np.ones(2, np.int32)), "token 1 '' is empty"),
        (byte_level(tokens="abc"), "of type str, expected an array of strings"),
        (byte_level(eos_token_id=932), "tokenizer.ggml.eos_token_id is 932, but there are 932 tokens"),
        (byte_level(bos_token_id="<s>"), "expected an integer"),
        (byte_level(add_bos_token=1), "expected a bool"),
        (sentencepiece(scores=None), "has no metadata 'tokenizer.ggml.scores'"),
        (sentencepiece(scores=np.zeros(2, np.float32)), "scores has 2 entries for 10 tokens"),
        (sentencepiece(remove_extra_whitespaces=True), "remove_extra_whitespaces is a normalisation"),
        (sentencepiece(precompiled_charsmap=np.zeros(2, np.int32)), "precompiled_charsmap is a normalisation"),
    ],
)
def test_metadata_that_can_not_be_or_is_not_known_is_refused_by_key(tmp_path, metadata, found):
    with refuses(CheckpointError, tmp_path / "x.gguf", found):
        open_with(tmp_path, metadata)
