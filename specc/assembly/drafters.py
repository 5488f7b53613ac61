"""The drafters of a compile, from what the user named."""

import numpy as np
from numpy.typing import NDArray

from specc.assembly.calibration import calibration_ids, read_calibration
from specc.assembly.core_models import DrafterPlan
from specc.assembly.draft_vocabulary import head_ids
from specc.assembly.sources import ModelSource, open_model, slice_of
from specc.assembly.vocabulary import check_same_vocabulary
from specc.models.limits import largest_context
from specc.options import CompileOptions

DRAFTER = "drafter"  # key of the one drafter a compile builds
HEAD_IDS_FILE = "{key}.head_ids.npy"


def plan_drafters(options: CompileOptions, verifier: ModelSource, context: int) -> tuple[DrafterPlan, ...]:
    """The model drafter that was asked for; none for n-gram lookup, which needs no model.

    Raises OptionError, CheckpointError, UnsupportedError or VocabularyError.
    """
    draft = options.draft
    if draft.kind == "ngram":
        return ()
    if draft.kind == "slice":
        name, source = f"slice:{draft.layers}", slice_of(verifier, draft.layers or 0)
    else:
        name = draft.source or ""
        source = open_model(name, options.ignore_config)
    common = check_same_vocabulary(
        verifier.vocabulary, source.vocabulary, source.spec.vocab_rows, source.checkpoint.path
    )
    head = _head(options, verifier, common)
    return (DrafterPlan(DRAFTER, name, source, min(context, largest_context(source.spec)), head),)


def _head(options: CompileOptions, verifier: ModelSource, common: int) -> NDArray[np.int32] | int:
    """The full ids a trimmed head keeps; else how many ids there are, which are the verifier's."""
    if options.draft_vocabulary is None:
        return common if common == verifier.vocabulary.count else np.arange(common, dtype=np.int32)
    tokenizer = verifier.checkpoint.tokenizer
    always = tokenizer.eos_ids if tokenizer is not None else ()
    return head_ids(
        options.draft_vocabulary,
        common,
        always,
        lambda: calibration_ids(read_calibration(options.calibration), verifier),
    )
