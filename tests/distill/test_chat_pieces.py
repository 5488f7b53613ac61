import pytest
from tokenizers import Tokenizer

from specc.checkpoint.types import TokenizerFiles
from specc.distill.chat_pieces import chat_pieces
from specc.errors import CheckpointError
from specc.render import chat_prompt
from tests.distill.tiny_verifier import CHAT_TEMPLATE
from tests.support.checkpoints import tiny_tokenizer_json

JSON = tiny_tokenizer_json(300, ["<s>", "</s>"])


def test_pieces_around_words_are_what_the_template_writes() -> None:
    tokenizer = Tokenizer.from_str(JSON)
    pieces = chat_pieces(TokenizerFiles(JSON, CHAT_TEMPLATE, 298, (299,)), "x")

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    said = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}, {"role": "user", "content": "e"}]
    whole = (*pieces.openings[0], *ids("ab"), *pieces.to_assistant, *ids("cd"), *pieces.to_user, *ids("e"))
    assert whole + pieces.to_assistant == ids(chat_prompt(CHAT_TEMPLATE, said, {}))  # type: ignore[arg-type]
    assert pieces.ends == {299}
    assert pieces.has_turns


def test_a_template_with_a_system_message_also_opens_without_it() -> None:
    tokenizer = Tokenizer.from_str(JSON)
    template = "<s>system be kind</s> " + CHAT_TEMPLATE
    pieces = chat_pieces(TokenizerFiles(JSON, template, 298, (299,)), "x")
    whole, bare = (tokenizer.decode(list(opening), skip_special_tokens=False) for opening in pieces.openings)
    assert whole.endswith(bare)
    assert "be kind" in whole
    assert "be kind" not in bare
    assert pieces.opening == len(pieces.openings[1])
    assert len(chat_pieces(TokenizerFiles(JSON, CHAT_TEMPLATE, 298, (299,)), "x").openings) == 1


def test_text_without_a_template_starts_at_bos() -> None:
    pieces = chat_pieces(TokenizerFiles(JSON, None, 298, (299,)), "x")
    assert (pieces.openings, pieces.has_turns) == (((298,),), False)


def test_text_without_any_start_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no BOS or EOS"):
        chat_pieces(TokenizerFiles(JSON), "x")
