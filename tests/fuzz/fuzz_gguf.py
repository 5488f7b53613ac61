"""Coverage-guided fuzzing of the GGUF reader.

An even first byte: the rest is the file. An odd one: the rest chooses keys, values and tensors of a well-formed file,
so that mutations reach the config, names and tokenizer behind the header.
"""

import struct
import tempfile
from pathlib import Path

import atheris
import numpy as np

from tests.fuzz.harness import check_refusal, fuzz

with atheris.instrument_imports(include=["specc"]):
    from specc.checkpoint.gguf_checkpoint import open_gguf
    from specc.errors import CheckpointError

from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json
from tests.support.gguf_files import decoder_metadata, decoder_tensors, tokenizer_metadata, write_gguf

FILE = Path(tempfile.mkdtemp()) / "fuzz.gguf"
ARCHITECTURES = ["llama", "qwen2", "qwen3", "gpt2"]
PARTS = [key.split(".", 1)[1] for key in decoder_metadata() if key.startswith("llama.")]
PARTS += ["attention.key_length", "attention.value_length", "attention.sliding_window", "rope.dimension_count"]
PARTS += [f"rope.scaling.{part}" for part in ("type", "factor", "original_context_length", "yarn_beta_fast")]
TOKENIZER = ["model", "pre", "tokens", "token_type", "scores", "merges", "bos_token_id", "eos_token_id"]
TOKENIZER += ["add_bos_token", "add_space_prefix", "unknown_token_id"]
GENERAL = ["general.alignment", "split.count", "tokenizer.chat_template", "general.license"]
TEXTS = [
    "llama",
    "gpt2",
    "none",
    "gpt-2",
    "llama-bpe",
    "smollm",
    "linear",
    "yarn",
    "a",
    "b",
    "ab",
    "a b",
    "▁",
    "<0x0A>",
]
TENSORS = ["token_embd.weight", "output.weight", "output_norm.bias", "rope_freqs.weight", "blk.0.attn_q.weight"]
TENSORS += ["blk.0.attn_k.bias", "blk.1.attn_k.weight", "blk.0.ffn_up.weight", "blk.0.nothing.weight"]
SCALARS = "BbHhIif?\0\0QqdQ"  # struct formats by GGUF value type; 8 and 9 are text and array
STRING, ARRAY = 8, 9


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw


def scalar(choose: atheris.FuzzedDataProvider, kind: int) -> bytes:
    if kind == STRING:
        return text(choose.PickValueInList(TEXTS) if choose.ConsumeBool() else choose.ConsumeUnicodeNoSurrogates(8))
    if choose.ConsumeBool() and SCALARS[kind] in "IiHhBbQq":
        return struct.pack("<" + SCALARS[kind], choose.ConsumeIntInRange(0, 64))
    return choose.ConsumeBytes(struct.calcsize(SCALARS[kind])).ljust(struct.calcsize(SCALARS[kind]), b"\0")


def value(choose: atheris.FuzzedDataProvider) -> bytes:
    kind = choose.ConsumeIntInRange(0, 12)
    if kind != ARRAY:
        return struct.pack("<I", kind) + scalar(choose, kind)
    inner = choose.PickValueInList([4, 5, 6, STRING])
    items = [scalar(choose, inner) for _ in range(choose.ConsumeIntInRange(0, 12))]
    return struct.pack("<IIQ", kind, inner, len(items)) + b"".join(items)


def tensor(choose: atheris.FuzzedDataProvider) -> bytes:
    shape = [choose.PickValueInList([1, 2, 4, 32, 64, 256]) for _ in range(choose.ConsumeIntInRange(1, 3))]
    kind, offset = choose.ConsumeIntInRange(0, 41), 32 * choose.ConsumeIntInRange(0, 32)
    name = text(choose.PickValueInList(TENSORS))
    return name + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def well_formed(data: bytes) -> bytes:
    choose = atheris.FuzzedDataProvider(data)
    architecture = choose.PickValueInList(ARCHITECTURES)
    keys = GENERAL + [f"{architecture}.{part}" for part in PARTS] + [f"tokenizer.ggml.{part}" for part in TOKENIZER]
    entries = [text("general.architecture") + struct.pack("<I", STRING) + text(architecture)]
    entries += [text(key) + value(choose) for key in keys if choose.ConsumeBool()]
    tensors = [tensor(choose) for _ in range(choose.ConsumeIntInRange(0, 4))]
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries + tensors)
    return header + bytes(-len(header) % 32) + choose.ConsumeBytes(1 << 12).ljust(1 << 11, b"\0")


def one_input(data: bytes) -> None:
    """The file opens, and then all its tensors can be read; or CheckpointError says in one line why not."""
    FILE.write_bytes(data[1:] if not data[:1] or data[0] % 2 == 0 else well_formed(data[1:]))
    try:
        checkpoint = open_gguf(FILE, str(FILE))
    except CheckpointError as error:
        check_refusal(error)
        return
    for weight in checkpoint.weights.values():
        array = weight.numpy()
        assert (array.shape, array.dtype) == (weight.shape, weight.dtype)


def seeds() -> list[bytes]:
    config = decoder_config(num_hidden_layers=1, hidden_size=32, intermediate_size=32, head_dim=8, vocab_size=32)
    tensors = decoder_tensors(decoder_weights(config), heads=4, kv_heads=2, moved=True)
    metadata = decoder_metadata(embedding_length=32, feed_forward_length=32, block_count=1)
    tokenizer = tokenizer_metadata(tiny_tokenizer_json(32, ("<s>",))) | {"tokenizer.ggml.merges": ["a b"]}
    tokenizer["tokenizer.ggml.tokens"][30] = "ab"
    whole = write_gguf(FILE, metadata | tokenizer, tensors).read_bytes()
    return [b"\0" + whole, b"\x01" + bytes(range(256)) * 4, b"\x01" + np.random.default_rng(0).bytes(2048)]


if __name__ == "__main__":
    fuzz(one_input, seeds())
