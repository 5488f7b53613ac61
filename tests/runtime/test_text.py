from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import TokenizerInfo
from specc_runtime.text import MAX_HELD, REPLACEMENT, TextCodec, TextStream
from tests.support.tokenizer_files import EOS, byte_level_tokenizer, sentencepiece_tokenizer

BYTE_LEVEL, SENTENCEPIECE = byte_level_tokenizer(), sentencepiece_tokenizer()


def codec_of(folder: Path, json: str, **info: object) -> TextCodec:
    (folder / "tokenizer.json").write_text(json, encoding="utf-8")
    return TextCodec(folder / "tokenizer.json", TokenizerInfo("tokenizer.json", token_count=257, **info))


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    return codec_of(tmp_path_factory.mktemp("bytes"), BYTE_LEVEL)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    return codec_of(tmp_path_factory.mktemp("llama"), SENTENCEPIECE)


def pieces(codec: TextCodec, ids: list[int]) -> list[str]:
    stream = TextStream(codec)
    return [*(stream.push(token) for token in ids), stream.flush()]


def test_a_character_comes_whole(codec: TextCodec) -> None:
    assert pieces(codec, codec.encode("aß€🙂")) == ["a", "", "ß", "", "", "€", "", "", "", "🙂", ""]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_pieces_add_up_to_the_text(codec: TextCodec, text: str) -> None:
    ids = codec.encode(text)
    assert "".join(pieces(codec, ids)) == codec.decode(ids)
    assert codec.decode(ids) == text.replace(EOS, "")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 256), max_size=40))
def test_any_ids_stream_without_halves_of_characters(codec: TextCodec, ids: list[int]) -> None:
    assert "".join(pieces(codec, ids)) == codec.decode(ids)


def test_bytes_that_never_become_a_character_come_at_the_end(codec: TextCodec) -> None:
    euro = codec.encode("€")
    assert pieces(codec, [*codec.encode("a"), *euro[:2]]) == ["a", "", "", REPLACEMENT]


def test_text_is_not_held_back_for_ever(codec: TextCodec) -> None:
    continuation = codec.encode("€")[1]
    got = pieces(codec, [continuation] * (3 * MAX_HELD))
    assert max(len(piece) for piece in got) <= MAX_HELD + 1
    assert sum(piece != "" for piece in got) >= 2


def test_leading_spaces_of_words_survive(llama: TextCodec) -> None:
    vocabulary = Tokenizer.from_str(SENTENCEPIECE).get_vocab()
    end, hello, world, exclamation = (vocabulary[token] for token in (EOS, "▁Hello", "▁world", "!"))
    assert pieces(llama, [hello, world, exclamation]) == ["Hello", " world", "!", ""]
    assert "".join(pieces(llama, [hello, end, end, world])) == "Hello world"


def test_byte_fallback_characters_come_whole(llama: TextCodec) -> None:
    vocabulary = Tokenizer.from_str(SENTENCEPIECE).get_vocab()
    bytes_of = [vocabulary[f"<0x{byte:02X}>"] for byte in "你好".encode()]
    ids = [vocabulary["a"], *bytes_of, vocabulary["▁world"]]
    assert pieces(llama, ids) == ["a", "", "", "你", "", "", "好", " world", ""]


def test_bos_is_added_once_and_only_where_wanted(tmp_path: Path) -> None:
    codec = codec_of(tmp_path, BYTE_LEVEL, bos_id=256, add_bos=True)
    letter = codec_of(tmp_path, BYTE_LEVEL, bos_id=256).encode("a")
    assert codec.encode("a") == codec.encode(EOS + "a") == [256, *letter]
    assert codec.encode("") == [256]


def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    for content in ("{}", "not json", '{"model": {"type": "BPE"'):
        with pytest.raises(TokenizerError, match=r"tokenizer.json: .*; re-copy or re-compile"):
            codec_of(tmp_path, content)
    with pytest.raises(TokenizerError, match="missing"):
        TextCodec(tmp_path / "missing.json", TokenizerInfo("missing.json", token_count=1))


def test_a_prompt_that_is_not_text(codec: TextCodec) -> None:
    with pytest.raises(TokenizerError, match="UTF-8"):
        codec.encode("a\udcff")
