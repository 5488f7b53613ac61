"""Which tokens a drafter favours after each token of a text: where a wrong acceptance shows most."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specc.check.places import Laws, softmax
from specc.check.subject import Subject
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.history import TokenHistory

Tokens = NDArray[np.int64]


class Favourites(Protocol):
    """The law of one drafter over the verifier's ids, after each token of a text that follows a prompt."""

    def laws(self, text: Tokens, columns: int) -> Laws:
        """`[len(text), columns]`."""
        ...


def favourites(subject: Subject, drafter: str, prompt: Tokens, longest: int) -> Favourites | None:
    """Of `drafter`; None if it does not reach to the end of texts of `longest` tokens behind the prompt."""
    info = subject.bundle.manifest.drafters[drafter]
    if info.model is None:
        return _Ngram(prompt)
    if info.model.context < len(prompt) + longest:
        return None
    subject.programs.catchup(drafter, prompt, 0)
    ids = None if info.head_ids is None else np.load(subject.bundle.path(info.head_ids), allow_pickle=False)
    return _Model(subject, drafter, len(prompt), ids)


@dataclass(frozen=True)
class _Model:
    """A model whose cache holds a prompt of `start` tokens. ids: of a trimmed head."""

    subject: Subject
    key: str
    start: int
    ids: NDArray[np.int32] | None

    def laws(self, text: Tokens, columns: int) -> Laws:
        laws = np.zeros((len(text), columns))
        for row in range(len(text)):
            law = softmax(self.subject.programs.draft(self.key, text[row : row + 1], self.start + row))
            laws[row, np.arange(len(law)) if self.ids is None else self.ids] = law
        return laws


@dataclass(frozen=True)
class _Ngram:
    """Lookup in the text so far: all mass on the token it would draft."""

    prompt: Tokens

    def laws(self, text: Tokens, columns: int) -> Laws:
        laws = np.zeros((len(text), columns))
        for row in range(len(text)):
            history = TokenHistory(np.append(self.prompt, text[: row + 1]), columns)
            laws[row, NgramDrafter().propose(history, 1, np.zeros(1)).ids] = 1
        return laws
