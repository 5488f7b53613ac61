"""Which tokens a drafter favours after each token of a text: where a wrong acceptance shows most."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specc.check.places import Laws, softmax
from specc.check.subject import Subject
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.engines.base import Programs
from specc_runtime.history import TokenHistory

Tokens = NDArray[np.int64]


class Favourites(Protocol):
    """The law of one drafter over the verifier's ids, after each token of a text that follows a prompt."""

    def laws(self, text: Tokens, columns: int) -> Laws:
        """`[len(text), columns]`."""
        ...


def favourites(subject: Subject, drafter: str, prompt: Tokens, longest: int) -> Favourites | None:
    """Of `drafter`; None if it does not reach to the end of texts of `longest` tokens behind the prompt.

    Must hold: the verifier's cache holds the prompt.
    """
    info = subject.bundle.manifest.drafters[drafter]
    if info.model is None:
        return _Ngram(prompt)
    if info.model.context < len(prompt) + longest:
        return None
    known = prompt[1:] if info.features else prompt
    if len(known):
        subject.programs.catchup(drafter, known, 0)
    ids = None if info.head_ids is None else np.load(subject.bundle.path(info.head_ids), allow_pickle=False)
    return _Model(subject.programs, drafter, prompt, info.features, ids)


@dataclass(frozen=True)
class _Model:
    """A model whose cache holds the prompt. features: its row i holds token i + 1. ids: of a trimmed head."""

    programs: Programs
    key: str
    prompt: Tokens
    features: bool
    ids: NDArray[np.int32] | None

    def laws(self, text: Tokens, columns: int) -> Laws:
        known, laws = np.append(self.prompt, text), np.zeros((len(text), columns))
        for row, at in enumerate(range(len(self.prompt), len(known))):
            if self.features:  # the step before left what it predicts where the verifier's feature belongs
                self.programs.verify(known[at - 1 : at], at - 1, 0)
            law = softmax(self.programs.draft(self.key, known[at : at + 1], at - self.features))
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
