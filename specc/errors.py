"""Everything the compiler raises on purpose; the runtime's own tree is `specc_runtime.errors`.

SpeccError (specc_runtime)
└── CompileError           compiling stopped; nothing was written
    ├── CheckpointError    a checkpoint file is missing, truncated, corrupt or not understood
    ├── UnsupportedError   the model asks for something specc does not build (names the config.json field)
    ├── VocabularyError    verifier and drafter do not share a vocabulary
    ├── TargetError        the target or its backend is unknown or not available
    ├── OptionError        a compile option is out of range or contradicts another
    ├── PassError          a pass broke an invariant (names the pass and those before it)
    └── LegalizeError      a backend has no form for an op (names op, rules file, next step)

Each message is one line: what was asked, what was found, what is known, what to do next.
"""

from specc_runtime.errors import SpeccError


class CompileError(SpeccError):
    """Compiling stopped; nothing was written."""


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
