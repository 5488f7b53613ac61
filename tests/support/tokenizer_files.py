"""Small tokenizers of the two common kinds, as tokenizer.json text."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

EOS = "<end>"


def byte_level_tokenizer() -> str:
    """One token per byte (ids in alphabet order), then the special token EOS: every character may be split."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    return tokenizer.to_str()


def sentencepiece_tokenizer() -> str:
    """Llama's kind: words that carry their leading space, byte fallback for the rest, a special token EOS."""
    words = [EOS, "▁", "▁Hello", "▁world", "!", "a", "b", "▁a"]
    vocab = {token: i for i, token in enumerate([*words, *(f"<0x{byte:02X}>" for byte in range(256))])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    return tokenizer.to_str()
