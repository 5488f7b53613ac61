"""What a compile says about its bundle: bytes to the last one, shares, measured quality, threads, provenance."""

import json
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from specc.assembly.quality import TOKENS as TOKENS_MEASURED
from specc.bundle.weight_store import PAD_PREFIX
from specc.options import DraftVocabulary
from specc.pipeline import compile_bundle
from specc.progress import Silent
from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import Manifest
from tests.support.checkpoints import decoder_config, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.tiny_models import EOS, TOKENS, TinyBundles, compiled, options, tiny_weights

CASES = {
    "reference": {},
    "int8": {"precision": "int8"},
    "balanced": {"precision": "balanced"},
    "8-bit drafter": {"precision": "draft=int8"},
    "16-bit drafter": {"precision": "draft=bf16"},
    "16-bit verifier": {"precision": "attention=bf16,mlp=fp16,head=bf16,embedding=fp16,kv=fp16"},
    "trimmed": {"draft_vocabulary": DraftVocabulary(count=100)},
    "trimmed and fused": {"draft_vocabulary": DraftVocabulary(count=100), "fuse": True, "gammas": (1, 2)},
    "trimmed, 8 bits": {"draft_vocabulary": DraftVocabulary(count=100), "precision": "int8"},
    "ngram": {"draft": "ngram"},
}


def manifest_of(bundle: Path) -> Manifest:
    return open_bundle(bundle).manifest


def tensor_bytes(bundle: Path) -> Iterator[int]:
    """Sizes of the tensors in the weights file, from its header alone."""
    raw = (bundle / "weights.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    for name, entry in header.items():
        if not name.startswith(PAD_PREFIX):
            start, end = entry["data_offsets"]
            yield end - start


def by_part(manifest: Manifest) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for part in manifest.precision:
        table.setdefault(part.part, {})[part.stored] = part.bytes
    return table


@pytest.mark.parametrize(("tied", "vocab_size"), [(False, TOKENS), (True, TOKENS + 20)])
@pytest.mark.parametrize("name", CASES)
def test_parts_are_the_weights_file_to_the_byte(name: str, tied: bool, vocab_size: int, tiny: TinyBundles) -> None:
    model = tiny.model(vocab_size=vocab_size, tie_word_embeddings=tied)
    bundle = tiny.bundle(model, **CASES[name])
    manifest = manifest_of(bundle)
    weights = sum(part.bytes for part in manifest.precision if not part.part.endswith(".kv"))
    assert weights == sum(tensor_bytes(bundle))
    caches = sum(part.bytes for part in manifest.precision if part.part.endswith(".kv"))
    kept = (p for p in manifest.programs if p.kind != "recompute")  # whose caches are there only for who asks
    states = {(s.owner, s.role): s for p in kept for s in p.state}
    itemsize = {"float32": 4, "float16": 2}
    assert caches == sum(itemsize[s.dtype] * int(np.prod(s.shape)) for s in states.values())
    assert set(manifest.files) == {str(p.relative_to(bundle)) for p in bundle.rglob("*.*")} - {"manifest.json"}


def test_verifier_bytes_part_by_part(tiny: TinyBundles) -> None:
    hidden, inner, qkv, layers = 64, 96, 64 + 2 * 32, 3
    attention, mlp = layers * (qkv * hidden + hidden * 64), layers * 3 * inner * hidden
    rows = 48 + 4 + 1 + 1
    expected = {
        "verifier.embedding": {"fp32": 4 * TOKENS * hidden},
        "verifier.norm": {"fp32": 4 * (2 * layers + 1) * hidden},
        "verifier.rope": {"fp32": 4 * 2 * rows * 8},
        "verifier.attention": {"fp32": 4 * attention},
        "verifier.mlp": {"fp32": 4 * mlp},
        "verifier.head": {"fp32": 4 * TOKENS * hidden},
        "verifier.kv": {"fp32": 4 * 2 * layers * 2 * rows * 16},
        "drafter.kv": {"fp32": 4 * 2 * 1 * 2 * rows * 16},
    }
    assert by_part(manifest_of(tiny.bundle())) == expected
    int8 = by_part(manifest_of(tiny.bundle(precision="int8")))
    scales = {"attention": attention // 64, "mlp": layers * (2 * inner * hidden // 64 + hidden * inner // 32)}
    assert int8["verifier.attention"] == {"int8": attention + 4 * scales["attention"]}
    assert int8["verifier.mlp"] == {"int8": mlp + 4 * scales["mlp"]}


def test_what_no_block_divides_stays_and_is_reported_apart(tiny: TinyBundles) -> None:
    model = tiny.model(intermediate_size=72)
    parts = by_part(manifest_of(tiny.bundle(model, precision="int8")))
    assert parts["verifier.mlp"]["fp32"] == 3 * 4 * 64 * 72
    assert set(parts["verifier.mlp"]) == {"fp32", "int8"}


@pytest.mark.parametrize(
    ("precision", "shared", "own"),
    [
        ("reference", {"embedding", "norm", "rope", "attention", "mlp", "head"}, set()),
        ("int8", {"embedding", "norm", "rope", "attention", "mlp", "head"}, set()),
        ("draft=int8", {"embedding", "norm", "rope"}, {"attention", "mlp", "head"}),
        ("int8,head=fp32", {"embedding", "norm", "rope", "attention", "mlp"}, {"head"}),
    ],
)
def test_what_a_slice_shares(precision: str, shared: set[str], own: set[str], tiny: TinyBundles) -> None:
    manifest = manifest_of(tiny.bundle(precision=precision))
    assert set(manifest.drafters["drafter"].shares) == shared
    owned = {part.part.split(".")[1] for part in manifest.precision if part.part.startswith("drafter.")}
    assert owned - {"kv"} == own


def test_another_checkpoint_shares_nothing(tiny: TinyBundles) -> None:
    manifest = manifest_of(tiny.bundle(draft=str(tiny.model(seed=1))))
    assert manifest.drafters["drafter"].shares == ()


def test_warnings(tiny: TinyBundles, tmp_path: Path) -> None:
    assert compiled(tiny.model(), tmp_path / "a").warnings == ()
    (copied,) = compiled(tiny.model(), tmp_path / "b", precision="draft=int8").warnings
    size = 64 * (128 + 64 + 3 * 96 + TOKENS)
    size += 4 * ((128 + 64 + 2 * 96 + TOKENS) * 64 // 64 + 64 * 96 // 32)
    assert f"drafter 'drafter' has its own attention, mlp, head ({size:,} bytes)" in copied
    short = tiny.model(max_position_embeddings=32)
    (reach,) = compiled(tiny.model(), tmp_path / "c", draft=str(short)).warnings
    assert reach == "drafter 'drafter' reaches to position 32; plain decoding beyond it"


@pytest.mark.parametrize("precision", ["int8", "mlp=int8", "int8,head=fp32"])
def test_quality_of_a_quantised_verifier(precision: str, tiny: TinyBundles) -> None:
    quality = manifest_of(tiny.bundle(precision=precision)).quality
    assert set(quality) == {"kl", "kl_p99", "argmax_agreement", "tokens"}
    assert 0 < quality["kl"] <= quality["kl_p99"] < 0.1
    assert 0.5 < quality["argmax_agreement"] <= 1
    assert quality["tokens"] > 40


@pytest.mark.parametrize("precision", ["reference", "draft=int8", "balanced"])
def test_no_quality_without_quantisation(precision: str, tiny: TinyBundles) -> None:
    assert manifest_of(tiny.bundle(precision=precision)).quality == {}


def test_no_quality_without_a_tokenizer(tiny: TinyBundles) -> None:
    assert manifest_of(tiny.bundle(tiny.model(tokenizer=None), precision="int8")).quality == {}


def test_threads_are_measured_unless_given(tiny: TinyBundles, tmp_path: Path) -> None:
    assert manifest_of(tiny.bundle()).threads == 1
    assert compiled(tiny.model(), tmp_path / "a", threads=3).manifest.threads == 3
    assert (compiled(tiny.model(), tmp_path / "b", threads=None).manifest.threads or 0) >= 1


@pytest.mark.parametrize(
    ("asked", "gammas"),
    [
        ({}, (1, 2, 4)),
        ({"fuse": True}, (4,)),
        ({"target": "h100"}, (4,)),
        ({"gammas": (2,)}, (2,)),
    ],
)
def test_gammas_that_nobody_asked_for(asked: dict[str, Any], gammas: tuple[int, ...], tiny: TinyBundles) -> None:
    """Several where programs share their weights, one where each gamma is a copy."""
    precision = "balanced" if "target" in asked else "reference"
    assert manifest_of(tiny.bundle(precision=precision, **{"gammas": None} | asked)).gammas == gammas


@pytest.mark.parametrize(("gammas", "default"), [((4,), 4), ((1, 2), 2), ((2, 6), 2), ((3, 5), 3), ((8, 16), 8)])
def test_default_gamma_is_the_nearest_to_4(gammas: tuple[int, ...], default: int, tiny: TinyBundles) -> None:
    manifest = manifest_of(tiny.bundle(draft="ngram", gammas=gammas))
    assert (manifest.gammas, manifest.gamma) == (gammas, default)


def test_models_tools_and_sources(tiny: TinyBundles) -> None:
    verifier, drafter = tiny.model(), tiny.model(seed=1)
    manifest = manifest_of(tiny.bundle(draft=str(drafter)))
    assert (manifest.verifier.name, manifest.verifier.layers, manifest.verifier.context) == (str(verifier), 3, 48)
    assert manifest.drafters["drafter"].source == str(drafter)
    assert manifest.toolchain == {
        "onnxruntime": version("onnxruntime"),
        "onnx": version("onnx"),
        "onnx_ir": version("onnx_ir"),
        "python": platform.python_version(),
    }
    assert {role: facts["source"] for role, facts in manifest.provenance.items()} == {
        "verifier": str(verifier),
        "drafter": str(drafter),
    }
    assert set(manifest_of(tiny.bundle()).provenance) == {"verifier"}


def test_parameters_are_those_of_the_checkpoint(tiny: TinyBundles) -> None:
    for tied in (False, True):
        config = decoder_config(num_hidden_layers=3, tie_word_embeddings=tied)
        manifest = manifest_of(tiny.bundle(tiny.model(tie_word_embeddings=tied)))
        assert manifest.verifier.parameters == sum(array.size for array in tiny_weights(config).values())


def test_weights_are_stored_as_asked(tiny: TinyBundles, tmp_path: Path) -> None:
    """A 16-bit checkpoint under `balanced`: its own type where the policy says so, and nothing is rounded twice."""
    config = decoder_config(num_hidden_layers=2)
    arrays = {name: array.astype(ml_dtypes.bfloat16) for name, array in tiny_weights(config).items()}
    model = write_hf_checkpoint(tmp_path / "m", config, arrays, tiny_tokenizer_json(TOKENS, [EOS]))
    parts = by_part(compiled(model, tmp_path / "b", precision="balanced").manifest)
    stored = {name: list(sizes) for name, sizes in parts.items() if name.startswith("verifier")}
    assert stored["verifier.mlp"] == ["bf16"]
    assert stored["verifier.embedding"] == ["bf16"]
    assert stored["verifier.norm"] == ["fp32"]


def test_readme_tells_the_same(tiny: TinyBundles) -> None:
    text = (tiny.bundle(precision="int8") / "README.md").read_text()
    quality = manifest_of(tiny.bundle(precision="int8")).quality
    assert f"{quality['kl']:.3g}" in text
    assert "| verifier.mlp | int8 | int8 |" in text


class Steps(Silent):
    """Records each step: its title, its total, and how far it came."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.totals: list[int | None] = []
        self.done: list[int] = []

    def step(self, title: str, total: int | None = None) -> "Steps":
        self.titles.append(title)
        self.totals.append(total)
        self.done.append(0)
        return self

    def advance(self, amount: int = 1) -> None:
        self.done[-1] += amount


def test_steps_end_where_they_said(tiny: TinyBundles, tmp_path: Path) -> None:
    steps = Steps()
    report = compile_bundle(options(tiny.model(), tmp_path / "b", precision="int8", threads=None), steps)
    weights = sum(tensor_bytes(tmp_path / "b"))
    hashed = report.bytes - (tmp_path / "b" / "README.md").stat().st_size  # it tells of the rest, and is added after it
    assert list(zip(steps.titles, steps.totals, steps.done, strict=True)) == [
        ("opening checkpoints", None, 0),
        ("building graphs", None, 0),
        ("lowering", None, 0),
        ("writing weights", weights, weights),
        ("measuring threads", None, 0),
        ("measuring the distance from the checkpoint", TOKENS_MEASURED, report.manifest.quality["tokens"]),
        ("hashing", hashed, hashed),
    ]
