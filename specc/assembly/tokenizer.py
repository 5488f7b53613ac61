"""Tokenizer files in a bundle."""

from specc.assembly.sources import ModelSource
from specc.bundle.staging import Staging
from specc_runtime.manifest import TokenizerInfo

TOKENIZER_FILE = "tokenizer.json"


def stage_tokenizer(verifier: ModelSource, staging: Staging) -> TokenizerInfo | None:
    """Stage the verifier's tokenizer; None when its checkpoint has none: the bundle then takes and gives ids only."""
    files = verifier.checkpoint.tokenizer
    if files is None:
        return None
    staging.add_file(TOKENIZER_FILE, files.json)
    return TokenizerInfo(
        file=TOKENIZER_FILE,
        token_count=verifier.vocabulary.count,
        bos_id=files.bos_id,
        eos_ids=files.eos_ids,
        pad_id=files.pad_id,
        add_bos=files.add_bos,
        chat_template=files.chat_template,
    )
