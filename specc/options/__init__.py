"""What a user may ask of a compile: the options, how they are written, and the precision policy."""

from specc.options.compiling import (
    CONTEXT_LIMITS,
    DEFAULT_CONTEXT,
    GAMMA_LIMITS,
    CompileOptions,
    DraftSpec,
    DraftVocabulary,
    parse_draft,
    parse_draft_vocabulary,
    parse_gammas,
    parse_xla_options,
)
from specc.options.precision import (
    CODED,
    DEFAULT_PRECISION,
    DTYPES,
    PARTS,
    PRESETS,
    Dtype,
    Part,
    Precision,
    PrecisionPolicy,
    parse_precision,
)

__all__ = [
    "CODED",
    "CONTEXT_LIMITS",
    "DEFAULT_CONTEXT",
    "DEFAULT_PRECISION",
    "DTYPES",
    "GAMMA_LIMITS",
    "PARTS",
    "PRESETS",
    "CompileOptions",
    "DraftSpec",
    "DraftVocabulary",
    "Dtype",
    "Part",
    "Precision",
    "PrecisionPolicy",
    "parse_draft",
    "parse_draft_vocabulary",
    "parse_gammas",
    "parse_precision",
    "parse_xla_options",
]
