"""Coverage-guided fuzzing of the GGUF reader.

An even first byte: the rest is the file. An odd one: the rest chooses what to change in a good file, its metadata, its
tensors or any bytes, so that mutations reach the config, names, values and tokenizer behind the header.
"""

import struct
from typing import Any

import atheris
import numpy as np
from gguf.constants import GGML_QUANT_SIZES

from tests.fuzz.harness import check_refusal, fuzz, scratch_file

with atheris.instrument_imports(include=["specc"]):
    from specc.checkpoint.gguf_checkpoint import open_gguf
    from specc.errors import CheckpointError

from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.gguf_files import decoder_metadata, tokenizer_metadata

FILE = scratch_file("fuzz.gguf")
SCALARS = "BbHhIif?\0\0QqdQ"  # struct formats by GGUF value type; 8 and 9 are text and array
INT32, UINT32, FLOAT32, BOOL, STRING, ARRAY = 5, 4, 6, 7, 8, 9
TYPES = {str: STRING, bool: BOOL, int: UINT32, float: FLOAT32}
TEXTS = [
    "gpt-2",
    "llama-bpe",
    "smollm",
    "qwen2",
    "default",
    "linear",
    "yarn",
    "none",
    "",
    "a",
    "ab",
    "a b",
    "▁",
    "<0x0A>",
]
NAMES = ["output.weight", "rope_freqs.weight", "blk.0.attn_k.bias", "blk.9.ffn_up.weight", "blk.0.nothing.weight"]

DECODER = decoder_metadata(embedding_length=256, feed_forward_length=32, block_count=1)
BYTE_LEVEL = tokenizer_metadata(tiny_tokenizer_json(32, ("<s>",))) | {"tokenizer.ggml.merges": ["b c"]}
BYTE_LEVEL["tokenizer.ggml.tokens"][30] = "bc"
PIECES = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "▁a", "ab", "aab"]
SENTENCEPIECE = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.token_type": np.array([2, 3, 3, 6, 1, 1, 1, 1, 1, 4], np.int32),
    "tokenizer.ggml.scores": -np.arange(len(PIECES), dtype=np.float32),
}
OPTIONAL = {
    "general.alignment": 64,
    "split.count": 1,
    "tokenizer.chat_template": "{{ x }}",
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_space_prefix": False,
    "llama.attention.key_length": 8,
    "llama.attention.sliding_window": 4,
    "llama.rope.scaling.type": "yarn",
    "llama.rope.scaling.factor": 4.0,
    "llama.rope.scaling.original_context_length": 32,
    "llama.rope.scaling.yarn_beta_fast": 16.0,
}
TENSORS = {"token_embd.weight": (256, 2), "blk.0.attn_q.weight": (256, 8), "blk.0.ffn_up.weight": (256, 2)}


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def encoded(value: Any) -> bytes:
    """A metadata value with its type in front."""
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
    if isinstance(value, np.ndarray):
        kind = FLOAT32 if value.dtype == np.float32 else INT32
        return struct.pack("<IIQ", ARRAY, kind, value.size) + value.tobytes()
    kind = TYPES[type(value)]
    return struct.pack("<I", kind) + (text(value) if kind == STRING else struct.pack("<" + SCALARS[kind], value))


def changed(choose: atheris.FuzzedDataProvider, value: Any) -> bytes:
    """Another value of the same type, or one of any type."""
    if isinstance(value, list) and choose.ConsumeBool():
        place = choose.ConsumeIntInRange(0, len(value))
        return encoded([*value[:place], choose.PickValueInList(TEXTS), *value[place + 1 :]])
    if isinstance(value, np.ndarray) and choose.ConsumeBool():
        value = value.copy()
        value[choose.ConsumeIntInRange(0, value.size - 1)] = choose.ConsumeIntInRange(-1, 7)
        return encoded(value)
    if isinstance(value, str) and choose.ConsumeBool():
        return encoded(choose.PickValueInList(TEXTS))
    kind = choose.PickValueInList([*range(STRING), *range(ARRAY + 1, len(SCALARS) - 1)])
    if choose.ConsumeBool() and SCALARS[kind] in "IiHhBbQq":
        return struct.pack("<I" + SCALARS[kind], kind, choose.ConsumeIntInRange(0, 64))
    size = struct.calcsize(SCALARS[kind])
    return struct.pack("<I", kind) + choose.ConsumeBytes(size).ljust(size, b"\0")


def changed_file(data: bytes) -> bytes:
    """A good file with a few things changed, as the data chooses."""
    choose = atheris.FuzzedDataProvider(data)
    metadata = DECODER | (BYTE_LEVEL if choose.ConsumeBool() else SENTENCEPIECE)
    metadata |= {key: value for key, value in OPTIONAL.items() if choose.ConsumeIntInRange(0, 7) == 7}
    entries = {key: encoded(value) for key, value in metadata.items()}
    for _ in range(choose.ConsumeIntInRange(0, 3)):
        key = choose.PickValueInList(list(metadata))
        entries[key] = changed(choose, metadata[key])
    if choose.ConsumeIntInRange(0, 7) == 7:
        del entries[choose.PickValueInList(list(entries))]
    shapes = dict(TENSORS)
    if choose.ConsumeBool():
        name = choose.PickValueInList([*TENSORS, *NAMES])
        shapes[name] = tuple(choose.PickValueInList([1, 4, 32, 256]) for _ in range(choose.ConsumeIntInRange(1, 3)))
    infos, offset = [], 0
    for name, shape in shapes.items():
        kind = choose.PickValueInList([8, 0, 1, 2, 3, 12, 19, 30, choose.ConsumeIntInRange(0, 45)])
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        block, size = GGML_QUANT_SIZES.get(kind, (1, 1))
        offset += -(-int(np.prod(shape)) // block * size // 64) * 64
        if choose.ConsumeIntInRange(0, 15) == 15:
            offset += choose.PickValueInList([-64, 64])
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries))
    header += b"".join(text(key) + value for key, value in entries.items()) + b"".join(infos)
    header += bytes(-len(header) % 64)
    content = bytearray(header + choose.ConsumeBytes(64).ljust(max(0, offset), b"\x5a"))
    for _ in range(max(0, choose.ConsumeIntInRange(-4, 3))):
        place = choose.ConsumeIntInRange(0, len(header) - 1)
        content[place : place + 1] = choose.ConsumeBytes(choose.ConsumeIntInRange(0, 2))
    return bytes(content)


def one_input(data: bytes) -> None:
    """The file opens, and then all its tensors can be read; or CheckpointError says in one line why not."""
    FILE.write_bytes(data[1:] if not data[:1] or data[0] % 2 == 0 else changed_file(data[1:]))
    try:
        checkpoint = open_gguf(FILE, str(FILE))
    except CheckpointError as error:
        check_refusal(error)
        return
    for weight in checkpoint.weights.values():
        array = weight.numpy()
        assert (array.shape, array.dtype) == (weight.shape, weight.dtype)


def seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    return [b"\0" + changed_file(b""), b"\x01", *(b"\x01" + rng.bytes(300) for _ in range(8))]


if __name__ == "__main__":
    fuzz(one_input, seeds())
