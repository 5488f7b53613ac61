"""Everything the compiler raises on purpose; the runtime's own tree is `specc_runtime.errors`.

SpeccError (specc_runtime)
├── BenchError             a benchmark can't be run as asked, or another engine in it failed
└── CompileError           compiling stopped; nothing was written
    ├── CheckpointError    a checkpoint file is missing, truncated, corrupt or not understood
    ├── UnsupportedError   the model asks for something specc does not build (names the config.json field)
    ├── VocabularyError    verifier and drafter do not share a vocabulary
    ├── TargetError        the target or its backend is unknown or not available
    ├── OptionError        a compile option is out of range or contradicts another
    ├── PassError          a pass broke an invariant (names the pass and those before it)
    ├── LegalizeError      a backend has no form for an op (names op, rules file, next step)
    ├── BuildError         the vendor's compiler refused a program (names it and the compiler's first error)
    └── ResourceError      the installation lacks a data file it ships

Each message is one line: what was asked, what was found, what is known, what to do next.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from specc_runtime.errors import SpeccError


class CompileError(SpeccError):
    """Compiling stopped; nothing was written."""


class BenchError(SpeccError):
    """A benchmark can't be run as asked, or another engine in it failed."""


class CheckpointError(CompileError):
    """A checkpoint file is missing, truncated, corrupt or not understood."""


class UnsupportedError(CompileError):
    """The model asks for something specc does not build."""


class VocabularyError(CompileError):
    """Verifier and drafter do not share a vocabulary."""


class TargetError(CompileError):
    """The target or its backend is unknown or not available."""


class OptionError(CompileError):
    """A compile option is out of range or contradicts another."""


class PassError(CompileError):
    """A pass broke an invariant of the core graph."""


class LegalizeError(CompileError):
    """A backend has no form for an op of the core graph."""


class BuildError(CompileError):
    """The vendor's compiler refused a program."""


class ResourceError(CompileError):
    """The installation lacks a data file it ships."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not known: the name, the nearest known one if any is near, all known ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return f"unknown {kind} {name!r}{hint} known: {', '.join(names)}"
