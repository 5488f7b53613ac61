import os
from dataclasses import replace
from pathlib import Path

import pytest

from specc.assembly.accounting import FEATURE_ROWS, KV
from specc.render import bundle_readme
from specc.render.bundle_readme import STATE_PARTS
from specc_runtime.manifest import (
    DrafterInfo,
    FileEntry,
    Manifest,
    ModelInfo,
    PartPrecision,
    Program,
    TokenizerInfo,
    Topology,
)

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
            PartPrecision("verifier.attention", "fp16", "fp32", 53_084_160),
            PartPrecision("verifier.head", "fp32", "fp32", 113_246_208),
            PartPrecision("verifier.kv", "fp32", "fp32", 94_648_320),
            PartPrecision("drafter.feature_rows", "fp32", "fp32", 14_155_776),
        ),
        files={},
        tokenizer=TokenizerInfo("tokenizer.json", 49152),
        precision_name="balanced",
        threads=2,
        resident_bytes=412_876_800,
        quality={"kl": 0.00534, "argmax_agreement": 0.991},
        toolchain={"onnx": "1.23.2", "onnxruntime": "1.32.0"},
        provenance={"verifier": {"format": "gguf", "licence": "apache-2.0", "revision": None}, "seed": 0},
    )


def test_readme_equals_the_golden_file() -> None:
    text = bundle_readme(manifest(), '<user>What is a "shadow"?\n<assistant>')
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_caches_are_no_weights() -> None:
    assert set(STATE_PARTS) == {KV, FEATURE_ROWS}
    text = bundle_readme(manifest())
    assert "158.6 MiB of weights in all, and 103.8 MiB of memory for caches" in text


def test_example_takes_what_the_bundle_takes() -> None:
    assert 'prompt = "Once upon a time"' in bundle_readme(manifest())
    assert "chat" not in bundle_readme(manifest())
    without = bundle_readme(replace(manifest(), tokenizer=None))
    assert "engine.generate([1, 2, 3]" in without
    assert "prompt =" not in without
    assert "[text]" not in without


@pytest.mark.parametrize("tokenizer", [TokenizerInfo("tokenizer.json", 49152), None])
def test_example_is_python(tokenizer: TokenizerInfo | None) -> None:
    text = bundle_readme(replace(manifest(), tokenizer=tokenizer), 'a "user"\n\u2028')
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "example", "exec")


def test_what_a_bundle_lacks_leaves_no_trace() -> None:
    built = [replace(program, built=True) for program in manifest().programs]
    text = bundle_readme(
        replace(manifest(), programs=tuple(built), threads=None, resident_bytes=None, quality={}, provenance={})
    )
    assert "portable" not in text
    assert "threads" not in text
    assert "end of its context" not in text
    assert "Measured distance" not in text
    assert "None" not in text


def test_what_a_host_needs_is_the_engines_own() -> None:
    compiled = replace(manifest(), toolchain={"onnxruntime": "1.32.0", "jax": "0.10.2"})
    assert "`pip install './runtime[text]'`." in bundle_readme(compiled)
    text = bundle_readme(compiled, engine=("jax", "flatbuffers>=25"))
    assert "`pip install './runtime[text]' jax==0.10.2 'flatbuffers>=25'`." in text
    text = bundle_readme(compiled, engine=(), system_packages=("migraphx",), environment={"PYTHONPATH": "/opt/x"})
    assert "`pip install './runtime[text]'`, the system's package `migraphx`, with `PYTHONPATH=/opt/x`." in text
    assert "`pip install './runtime[text]' 'tensorrt>=11'`." in bundle_readme(compiled, engine=("tensorrt>=11",))


def test_portable_programs_are_built_by_the_bundles_script() -> None:
    assert "in this folder: `python build.py`." in bundle_readme(manifest(), build_script="build.py")
    built = tuple(replace(program, built=True) for program in manifest().programs)
    assert "build.py" not in bundle_readme(replace(manifest(), programs=built), build_script="build.py")
    assert "are built on the device" not in bundle_readme(manifest())


def test_readme_depends_on_no_file_entry() -> None:
    assert bundle_readme(manifest()) == bundle_readme(replace(manifest(), files={"README.md": FileEntry(1, "00")}))
