"""The tokens a chat template puts around what user and assistant say."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from specc.checkpoint.types import TokenizerFiles
from specc.errors import CheckpointError
from specc.render import chat_prompt
from specc.render.chat import Message

_MARKS = ("\u2460first\u2460", "\u2461second\u2461", "\u2462third\u2462")


@dataclass(frozen=True)
class ChatPieces:
    """Token ids between the turns of a chat.

    openings: up to the first word of the user: the template's own and, where that has more before the user's turn
    (a system message), the turn's header alone: without the message a model asks, and quotes, other things.
    to_assistant: from the end of what the user said to the first word of the answer. to_user: from the end of the
    answer to the next word of the user. ends: ids that end a turn.
    Without a chat template `to_assistant` and `to_user` are empty: one text follows the other.
    """

    openings: tuple[tuple[int, ...], ...]
    to_assistant: tuple[int, ...]
    to_user: tuple[int, ...]
    ends: frozenset[int]

    @property
    def has_turns(self) -> bool:
        return bool(self.to_assistant)

    @property
    def opening(self) -> int:
        """Tokens of the shortest opening; a longer one goes on with a message that is always the same."""
        return min(map(len, self.openings))


def chat_pieces(files: TokenizerFiles, source: str) -> ChatPieces:
    """The pieces of the model's own template; of plain text from BOS (or EOS) when it has none.

    Raises CheckpointError when neither a template nor a token to start from is known.
    """
    tokenizer = Tokenizer.from_str(files.json)
    ends = frozenset(files.eos_ids)
    if files.chat_template is None:
        start = files.bos_id if files.bos_id is not None else min(ends, default=None)
        if start is None:
            raise CheckpointError(f"{source}: no chat template and no BOS or EOS to start text from; add one of them")
        return ChatPieces(((start,),), (), (), ends)
    opening, to_assistant, to_user = _split(files.chat_template, _special_tokens(tokenizer, files))

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    answered, asked = ids(to_assistant), ids(to_user)
    ends |= {piece[0] for piece in (answered, asked) if piece}
    end = tokenizer.decode(asked[:1], skip_special_tokens=False)
    header = to_user.removeprefix(end).lstrip()
    openings = [opening, header] if header and opening != header and opening.endswith(header) else [opening]
    return ChatPieces(tuple(ids(text) for text in openings), answered, asked, ends)


def _split(template: str, special_tokens: Mapping[str, str]) -> tuple[str, str, str]:
    """The template's text before, between and after marked messages."""
    user, answer, next_user = _MARKS
    messages: list[Message] = [
        {"role": "user", "content": user},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": next_user},
    ]
    single = chat_prompt(template, messages[:1], dict(special_tokens))
    several = chat_prompt(template, messages, dict(special_tokens))
    opening, _, to_assistant = single.partition(user)
    to_user = several.partition(answer)[2].partition(next_user)[0]
    return opening, to_assistant, to_user


def _special_tokens(tokenizer: Tokenizer, files: TokenizerFiles) -> dict[str, str]:
    ids = {"bos_token": files.bos_id, "eos_token": next(iter(files.eos_ids), None), "pad_token": files.pad_id}
    texts = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
    return {name: text for name, text in texts.items() if text is not None}
