import os
from dataclasses import replace
from pathlib import Path

from specc.render import bundle_readme
from specc_runtime.manifest import DrafterInfo, FileEntry, Manifest, ModelInfo, PartPrecision, Program, Topology

GOLDEN = Path(__file__).parent / "golden" / "bundle_README.md"


def manifest() -> Manifest:
    verifier = ModelInfo("Tiny|Llama", "llama", 30, 576, 49152, 8192, 134_515_008)
    drafter = replace(verifier, name="Tiny slice", layers=4, parameters=42_000_000)
    return Manifest(
        specc_version="0.1.0",
        target="cpu",
        backend="ort",
        context=2048,
        slack=8,
        gammas=(2, 4),
        gamma=4,
        verifier=verifier,
        drafters={
            "slice": DrafterInfo("model", drafter, 8192, "head_ids.npy", shares=("embedding", "layers")),
            "ngram": DrafterInfo("ngram"),
        },
        topologies={"chain4": Topology((-1, 0, 1, 2))},
        programs=(
            Program("a", "verify", "programs/verifier.onnx", (), (), max_width=256),
            Program("b", "draft", "programs/drafter.onnx", (), (), max_width=2, drafter="slice"),
            Program("c", "round", "programs/round4.bin", (), (), width=5, drafter="slice", accept="graph", built=True),
        ),
        precision=(
            PartPrecision("attention", "float16", "float32", 53_084_160),
            PartPrecision("head", "float32", "float32", 113_246_208),
        ),
        files={},
        precision_name="balanced",
        threads=2,
        quality={"kl": 0.00534, "argmax_agreement": 0.991},
        toolchain={"onnx": "1.23.2", "onnxruntime": "1.32.0"},
        provenance={"verifier": {"format": "gguf", "licence": "apache-2.0", "revision": None}, "seed": 0},
    )


def test_readme_equals_the_golden_file() -> None:
    text = bundle_readme(manifest())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_what_a_bundle_lacks_leaves_no_trace() -> None:
    built = [replace(program, built=True) for program in manifest().programs]
    text = bundle_readme(replace(manifest(), programs=tuple(built), threads=None, quality={}, provenance={}))
    assert "portable" not in text
    assert "threads" not in text
    assert "Measured distance" not in text
    assert "None" not in text


def test_readme_depends_on_no_file_entry() -> None:
    assert bundle_readme(manifest()) == bundle_readme(replace(manifest(), files={"README.md": FileEntry(1, "00")}))
