"""A small but complete manifest, and a bundle folder that holds the files it lists."""

import hashlib
from dataclasses import replace
from pathlib import Path

from specc_runtime.manifest import (
    MANIFEST_NAME,
    DrafterInfo,
    FileEntry,
    Manifest,
    ModelInfo,
    PartPrecision,
    Program,
    Speculation,
    StateSpec,
    TensorSpec,
    TokenizerInfo,
    Topology,
)
from specc_runtime.manifest_writing import manifest_json

FILES = ("programs/verifier.onnx", "programs/drafter.onnx", "head_ids.npy", "tokenizer.json")


def small_manifest() -> Manifest:
    """One verifier, one model drafter, one n-gram drafter, three programs; every table has an entry."""
    entry = FileEntry(bytes=3, sha256=hashlib.sha256(b"abc").hexdigest())
    return Manifest(
        specc_version="0.1.0",
        target="cpu",
        backend="ort",
        context=16,
        slack=4,
        gammas=(2, 4),
        gamma=4,
        verifier=_model("verifier"),
        drafters={
            "draft": DrafterInfo(
                kind="model",
                model=_model("drafter"),
                head_rows=4,
                head_ids="head_ids.npy",
                measured=Speculation((0.010, 0.012, 0.013, 0.014, 0.016), 0.001, (0.5, 0.25, 0.1, 0.0), 1.0, tokens=64),
            ),
            "ngram": DrafterInfo(kind="ngram"),
        },
        topologies={"chain": Topology((-1, 0, 1, 2))},
        programs=(
            _program("v", "verify", "programs/verifier.onnx", "verifier", None),
            _program("p", "prefill", "programs/verifier.onnx", "verifier", None),
            _program("d", "draft", "programs/drafter.onnx", "draft", "draft"),
        ),
        precision=(PartPrecision("mlp", "float32", "float32", 3),),
        files=dict.fromkeys(FILES, entry),
        tokenizer=TokenizerInfo("tokenizer.json", token_count=7, bos_id=1, eos_ids=(2, 3), add_bos=True),
        quality={"kl": 0.25},
        toolchain={"onnx": "1.23"},
        provenance={"licence": None, "files": ["a", 1, {"b": 0.5}]},
    )


def write_bundle(root: Path, manifest: Manifest | None = None) -> Path:
    """Write `manifest` (default: the small one) to `root` with three bytes in every file it lists."""
    manifest = small_manifest() if manifest is None else manifest
    for name in manifest.files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"abc")
    (root / MANIFEST_NAME).write_text(manifest_json(manifest), encoding="utf-8")
    return root


def with_program(**changes: object) -> Manifest:
    """The small manifest, its first program changed."""
    manifest = small_manifest()
    return replace(manifest, programs=(replace(manifest.programs[0], **changes), *manifest.programs[1:]))


def _model(name: str) -> ModelInfo:
    return ModelInfo(name, "llama", layers=1, hidden_size=8, vocab_rows=8, context=16, parameters=100)


def _program(key: str, kind: str, file: str, owner: str, drafter: str | None) -> Program:
    state = StateSpec("past.0.key", "present.0.key", owner, "layers.0.key", "float32", (1, 1, 20, 4))
    return Program(
        id=key,
        kind=kind,
        file=file,
        inputs=(TensorSpec("tokens", "int64", (1, "S")), TensorSpec("position", "int64", (1,))),
        outputs=(TensorSpec("logits", "float32", (1, "R", 8)),),
        state=(state,),
        max_width=8,
        drafter=drafter,
        topology="chain",
        options=("greedy",),
    )
