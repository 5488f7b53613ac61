"""Tokenizer files in a bundle."""

from specc.assembly.sources import ModelSource
from specc.bundle.staging import Staging
from specc.errors import VocabularyError
from specc_runtime.manifest import TokenizerInfo

TOKENIZER_FILE = "tokenizer.json"


def stage_tokenizer(verifier: ModelSource, staging: Staging) -> TokenizerInfo | None:
    """Stage the verifier's tokenizer; None when its checkpoint has none: the bundle then takes and gives ids only.

    EOS and padding ids without an embedding row are left out: no text holds them.
    Raises VocabularyError when every prompt would start with such an id.
    """
    files, rows = verifier.checkpoint.tokenizer, range(verifier.spec.vocab_rows)
    if files is None:
        return None
    if files.add_bos and files.bos_id not in rows:
        raise VocabularyError(
            f"{verifier.checkpoint.path}: prompts start with id {files.bos_id}, the embedding has {len(rows)} rows; "
            "correct bos_token_id"
        )
    staging.add_file(TOKENIZER_FILE, files.json)
    return TokenizerInfo(
        file=TOKENIZER_FILE,
        token_count=verifier.vocabulary.count,
        bos_id=files.bos_id if files.bos_id in rows else None,
        eos_ids=tuple(token for token in files.eos_ids if token in rows),
        pad_id=files.pad_id if files.pad_id in rows else None,
        add_bos=files.add_bos,
        chat_template=files.chat_template,
    )
