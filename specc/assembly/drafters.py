"""The drafters of a compile, from what the user named."""

import numpy as np
from numpy.typing import NDArray

from specc.assembly.calibration import calibration_ids, read_calibration
from specc.assembly.core_models import DrafterPlan
from specc.assembly.draft_vocabulary import head_ids
from specc.assembly.sources import ModelSource, open_model, slice_of
from specc.assembly.speculators import TrainedDrafter, open_trained
from specc.assembly.vocabulary import check_same_vocabulary
from specc.checkpoint import find_speculator
from specc.errors import OptionError
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
        folder = find_speculator(name)
        if folder is not None:
            return (_trained(options, open_trained(folder, name, verifier, options.ignore_config), context),)
        source = open_model(name, options.ignore_config)
    common = check_same_vocabulary(
        verifier.vocabulary, source.vocabulary, source.spec.vocab_rows, source.checkpoint.path
    )
    head = _head(options, verifier, common)
    return (DrafterPlan(DRAFTER, name, source, min(context, largest_context(source.spec)), head),)


def _trained(options: CompileOptions, trained: TrainedDrafter, context: int) -> DrafterPlan:
    """Raises OptionError: asked for what a drafter of this kind is not built with."""
    source, head = trained.source, trained.speculator.head_ids
    if head is not None and options.draft_vocabulary is not None:
        raise OptionError(
            f"draft-vocab: {source.checkpoint.path} has a head of {len(head)} tokens already; leave it out"
        )
    limit = min(context, largest_context(source.spec))
    ids = _head(options, trained.verifier, source.vocabulary.count) if head is None else head
    return DrafterPlan(DRAFTER, source.checkpoint.source, source, limit, ids, trained)


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
