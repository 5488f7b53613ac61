"""Everything the runtime raises on purpose.

SpeccError
├── BundleError            the bundle on disk can't be used
│   ├── ManifestError      manifest.json is missing, unreadable, of another schema, or contradicts itself
│   ├── IntegrityError     a file is missing, has another size or hash, or lies outside the bundle
│   └── EngineError        the engine a program needs is missing, of another version, or on the wrong machine
├── RequestError           what was asked of a good bundle can't be served
│   ├── OptionError        a sampling option is out of range, or no program serves it
│   └── ContextError       the prompt does not fit the context
└── TokenizerError         the tokenizer files are missing or unreadable, or text was given without them

Each message is one line: what was asked, what was found, what to do next.
"""


class SpeccError(Exception):
    """Root of every error raised on purpose by specc and its runtime."""


class BundleError(SpeccError):
    """The bundle on disk can't be used."""


class ManifestError(BundleError):
    """manifest.json is missing, unreadable, of another schema, or contradicts itself."""


class IntegrityError(BundleError):
    """A bundle file is missing, has another size or hash, or lies outside the bundle."""


class EngineError(BundleError):
    """The engine a program needs is missing, of another version, or on the wrong machine."""


class RequestError(SpeccError):
    """What was asked of a good bundle can't be served."""


class OptionError(RequestError):
    """A sampling option is out of range, or no program of the bundle serves it."""


class ContextError(RequestError):
    """The prompt does not fit the context."""


class TokenizerError(SpeccError):
    """The tokenizer files are missing or unreadable, or text was given without them."""


def first_line(error: Exception) -> str:
    """What an engine's own exception says, short enough to be quoted in one of these; its kind if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
