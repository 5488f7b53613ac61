"""tokenizer.json text, whatever file it came from: loaded, and made to add a BOS token or none."""

from tokenizers import Tokenizer, processors

from specc.errors import CheckpointError


def load_tokenizer(text: str, source: str, fix: str) -> Tokenizer:
    """The tokenizer in `text`. Raises CheckpointError naming `source` and the `fix`."""
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the Rust bindings raise nothing more specific
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{source}: not a tokenizer the tokenizers package loads ({reason}); {fix}") from error


def adds_bos(tokenizer: Tokenizer, bos_id: int | None) -> bool:
    """Whether encoding a text begins with `bos_id`."""
    return bos_id is not None and tokenizer.encode("").ids[:1] == [bos_id]


def settle_bos(tokenizer: Tokenizer, bos_id: int | None, add_bos: bool) -> bool:
    """Make encoding add `bos_id` in front or nothing at all; False if it did so already.

    A tokenizer that appends EOS is stripped of that too: a prompt that has ended can't be continued.
    """
    added = tokenizer.num_special_tokens_to_add(False)
    if added == int(add_bos) and adds_bos(tokenizer, bos_id) == add_bos:
        return False
    start, special = [], []
    if add_bos and bos_id is not None:
        start, special = ["bos"], [{"id": "bos", "ids": [bos_id], "tokens": [tokenizer.id_to_token(bos_id)]}]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*start, "$A"], pair=[*start, "$A", "$B"], special_tokens=special
    )
    return True
