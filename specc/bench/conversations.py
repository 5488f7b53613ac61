"""From turns of text to prompts of ids, and back."""

from collections.abc import Sequence

from specc.render.chat import Message, conversation
from specc_runtime import Engine


class Conversations:
    """How a bundle's model is asked: as a chat in its own format, or with the bare text.

    chat: None takes the chat format if the bundle has one.
    """

    def __init__(self, engine: Engine, chat: bool | None) -> None:
        info = engine.manifest.tokenizer
        self.chat = (info is not None and info.chat_template is not None) if chat is None else chat
        self._engine = engine

    def prompt(self, turns: Sequence[str], answers: Sequence[Sequence[int]]) -> list[int]:
        """Ids of the turns so far and the answers to all but the last of them. Raises TokenizerError."""
        codec = self._engine.codec
        replies = [codec.decode(answer) for answer in answers]
        if not self.chat:
            said = [part for pair in zip(turns, replies, strict=False) for part in pair]
            return codec.encode("\n\n".join([*said, turns[-1]]))
        messages: list[Message] = []
        for turn, reply in zip(turns, replies, strict=False):
            messages += [{"role": "user", "content": turn}, {"role": "assistant", "content": reply}]
        messages.append({"role": "user", "content": turns[-1]})
        return codec.encode(conversation(self._engine.bundle.root, self._engine.manifest.tokenizer, messages))
