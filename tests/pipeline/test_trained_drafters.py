"""Drafters in the speculators format, compiled: texts stay the verifier's, drafts are the format's own arithmetic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from specc.check.checking import check_bundle
from specc.check.core_agreement import check_core_agreement
from specc.check.subject import Subject
from specc.errors import OptionError
from specc.options import DraftVocabulary
from specc.pipeline import compile_bundle
from specc.progress import Silent
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import open_bundle
from specc_runtime.drafting.base import Draft
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.engines.base import Programs
from specc_runtime.history import TokenHistory
from tests.support.published_heads import as_published
from tests.support.refusals import refuses
from tests.support.speculators import (
    FeatureDrafterReference,
    layer_config,
    speculator_config,
    speculator_weights,
    write_speculator,
)
from tests.support.switching import SwitchingDrafter
from tests.support.tiny_models import TOKENS, TinyBundles, options

GAMMAS = (1, 2, 3, 4, 5, 6, 7, 8)
PROMPT = [50, 60, 7, 8, 50, 60]
GREEDY = SamplingParams(max_new_tokens=1000, ignore_eos=True)  # to the end of the context


@pytest.fixture(scope="module")
def spoken(tiny: TinyBundles) -> NDArray[np.int64]:
    """The tokens the tiny verifier says most: a head that holds only these is right now and then."""
    said = Engine.load(tiny.bundle()).generate(PROMPT, GREEDY, plain=True).finish().ids
    return np.unique(said)[:6] if len(np.unique(said)) > 1 else np.array([*np.unique(said), TOKENS - 1])


@dataclass(frozen=True)
class Trained:
    """A drafter as it is written. layers: the verifier's that it reads. ids: of its head, None for every token."""

    layer: Mapping[str, Any]
    layers: tuple[int, ...]
    weights: Mapping[str, NDArray[Any]]
    ids: NDArray[np.int64] | None
    flags: Mapping[str, bool] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    written: Callable[..., Any] = lambda config, weights: (config, weights)

    def write(self, folder: Path) -> Path:
        rows = None if self.ids is None else len(self.ids)
        config = speculator_config(self.layer, head_rows=rows, feature_layers=self.layers, **self.flags)
        return write_speculator(folder, *self.written(config | self.config, self.weights), self.ids)


def distilled(ids: NDArray[np.int64]) -> Trained:
    """As `specc draft distill` writes it: tables are the verifier's, every feature has a norm of its own."""
    flags = {"norm_before_residual": True, "fc_norm": True}
    return Trained(layer_config(), (0, 1, 3), speculator_weights(layer_config(), seed=1, **flags), ids, flags)


def published(ids: NDArray[np.int64]) -> Trained:
    """As EAGLE-3's authors publish it: own embedding and trimmed head, layers left to the default."""
    weights = speculator_weights(layer_config(), head_rows=len(ids), own_embedding=True, seed=2)
    return Trained(layer_config(), (0, 1, 2), weights, ids, written=as_published)


def unlike_both(ids: NDArray[np.int64]) -> Trained:
    """Everything else the format knows: two layers, a width of its own, one norm for all features, a whole head."""
    layer = layer_config(hidden_size=32, num_hidden_layers=2)
    flags = {"norm_before_fc": True, "norm_output": True}
    tables = {"head_rows": TOKENS, "own_embedding": True}
    weights = speculator_weights(layer, features=2, verifier_hidden=64, seed=3, **tables, **flags)
    return Trained(layer, (1, 2), weights, None, flags, {"target_hidden_size": 64})


MAKERS = {"distilled": distilled, "published": published, "unlike both": unlike_both}


class FeatureReference:
    """What a bundle with such a drafter must draft, from the two checkpoints alone."""

    def __init__(self, verifier: Path, trained: Trained) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(verifier, dtype=torch.float64, attn_implementation="eager")
        self._drafter = FeatureDrafterReference(trained.layer, trained.weights, **trained.flags)
        self._layers = trained.layers
        self._ids = np.arange(TOKENS) if trained.ids is None else trained.ids
        state, own = self._model.state_dict(), trained.weights
        self._embedding = own.get("embed_tokens.weight", state["model.embed_tokens.weight"].numpy())
        self._head = own.get("lm_head.weight", state["lm_head.weight"].numpy()[self._ids])

    def logits(self, history: Sequence[int], drafted: Sequence[int]) -> NDArray[np.float64]:
        """Logits over the head's ids of the token after `history` and `drafted`."""
        features, tokens = self._drafter.fused(self._streams(history[:-1])), list(history[1:])
        out, following = self._drafter.run(self._embedding[tokens], features)
        for token in drafted:
            features, tokens = np.concatenate([features, following[-1:]]), [*tokens, token]
            out, following = self._drafter.run(self._embedding[tokens], features)
        return np.asarray(out[-1] @ self._head.T)

    def column(self, token: int) -> int:
        return int(np.flatnonzero(self._ids == token)[0])

    def _streams(self, ids: Sequence[int]) -> list[NDArray[np.float64]]:
        seen: list[NDArray[np.float64]] = []
        readers = [*self._model.model.layers, self._model.model.norm]
        hooks = [
            readers[layer].register_forward_pre_hook(lambda _, args: seen.append(args[0][0].double().numpy()))
            for layer in self._layers
        ]
        with torch.no_grad():
            self._model(torch.tensor([list(ids)]))
        for hook in hooks:
            hook.remove()
        return seen


class Audited:
    """A drafter of a running bundle whose every token must be the reference's."""

    def __init__(self, engine: Engine, reference: FeatureReference, tolerance: float) -> None:
        self.drafts = 0
        self._drafter = engine._models.drafter("drafter", GREEDY, max(GAMMAS))
        self._reference, self._tolerance = reference, tolerance

    def limit(self, committed: int) -> int:
        return self._drafter.limit(committed)

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        draft = self._drafter.propose(history, gamma, uniforms)
        drafted: list[int] = []
        for token in draft.ids.tolist():
            logits = self._reference.logits(history.ids.tolist(), drafted)
            assert logits[self._reference.column(token)] >= logits.max() - self._tolerance
            drafted.append(token)
        self.drafts += 1
        return draft


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, spoken: NDArray[np.int64]) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("drafters")
    return {name: make(spoken).write(root / str(number)) for number, (name, make) in enumerate(MAKERS.items())}


@pytest.mark.parametrize("name", MAKERS)
def test_every_draft_is_the_formats_own_arithmetic(
    tiny: TinyBundles, folders: dict[str, Path], spoken: NDArray[np.int64], name: str
) -> None:
    engine = Engine.load(tiny.bundle(draft=str(folders[name]), gammas=GAMMAS))
    reference = FeatureReference(tiny.model(), MAKERS[name](spoken))
    plain = engine.generate(PROMPT, GREEDY, plain=True).finish().ids
    for others in ([], [NoDrafter(), NgramDrafter()]):
        audited = Audited(engine, reference, tolerance=1e-3)
        generation = engine.generate(PROMPT, GREEDY, drafter=SwitchingDrafter([audited, *others]), gamma=3).finish()
        assert generation.ids == plain
        assert audited.drafts > 3


@pytest.mark.parametrize("precision", ["reference", "int8", "reference,kv=fp16", "balanced"])
@pytest.mark.parametrize("name", MAKERS)
def test_speculation_changes_nothing(tiny: TinyBundles, folders: dict[str, Path], name: str, precision: str) -> None:
    engine = Engine.load(tiny.bundle(draft=str(folders[name]), precision=precision, gammas=GAMMAS))
    accepted = 0
    for prompt in (PROMPT, [298], PROMPT):
        plain = engine.generate(prompt, GREEDY, plain=True).finish().ids
        assert len(plain) == engine.manifest.context - len(prompt)
        for gamma in GAMMAS:
            generation = engine.generate(prompt, GREEDY, gamma=gamma).finish()
            assert generation.ids == plain, f"gamma {gamma} after {prompt}"
            accepted += generation.stats.spec_decode_num_accepted_tokens
    assert accepted > 0 or name == "unlike both"


@pytest.mark.parametrize("name", MAKERS)
def test_with_16_bit_caches_full_verification_renews_features_too(
    tiny: TinyBundles, folders: dict[str, Path], spoken: NDArray[np.int64], name: str
) -> None:
    engine = Engine.load(tiny.bundle(draft=str(folders[name]), precision="reference,kv=fp16", gammas=GAMMAS))
    asked = SamplingParams(max_new_tokens=1000, ignore_eos=True, verify_every=7)
    plain = engine.generate(PROMPT, asked, plain=True).finish()
    assert plain.stats.full_verifications == 6
    audited = Audited(engine, FeatureReference(tiny.model(), MAKERS[name](spoken)), tolerance=1e-2)  # 16-bit caches
    assert engine.generate(PROMPT, asked, drafter=audited, gamma=3).finish().ids == plain.ids
    assert audited.drafts > 3
    for gamma in GAMMAS:
        generation = engine.generate(PROMPT, asked, gamma=gamma).finish()
        assert generation.ids == plain.ids, gamma
        assert generation.stats.full_verifications == 6


def test_what_the_manifest_says(tiny: TinyBundles, folders: dict[str, Path], spoken: NDArray[np.int64]) -> None:
    bundle = tiny.bundle(draft=str(folders["distilled"]), gammas=GAMMAS)
    manifest = open_bundle(bundle).manifest
    info = manifest.drafters["drafter"]
    assert (info.features, info.head_rows, info.shares) == (True, len(spoken), ("embedding",))
    assert info.model is not None
    assert (info.model.model_type, info.model.layers) == ("eagle3", 1)
    np.testing.assert_array_equal(np.load(bundle / str(info.head_ids)), spoken)
    rows = {part.part: part.bytes for part in manifest.precision}
    assert rows["drafter.feature_rows"] == 4 * 64 * (manifest.context + manifest.slack)
    assert {"verifier.features", "drafter.attention", "drafter.mlp", "drafter.head", "drafter.kv"} <= set(rows)
    assert "sha256" in manifest.provenance["drafter"]
    keeping = {p.kind for p in manifest.programs if any(s.role == "features" for s in p.state)}
    assert keeping == {"prefill", "verify", "draft", "catchup"}


@pytest.mark.parametrize("precision", ["reference", "int8"])
def test_the_bundle_passes_its_check(tiny: TinyBundles, folders: dict[str, Path], precision: str) -> None:
    bundle = tiny.bundle(draft=str(folders["distilled"]), precision=precision, gammas=GAMMAS)
    rows = check_bundle(bundle).rows
    assert [row for row in rows if row.passed is False] == []
    assert any(row.name == "drafter against its core graph" and row.passed for row in rows)


class Stale:
    """Programs whose verifier is not fed again before a draft: the drafter then reads what it predicted itself."""

    def __init__(self, programs: Programs) -> None:
        self.draft = programs.draft
        self._programs = programs

    def verify(self, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        return self._programs.verify(tokens, position, rows) if rows else np.zeros((0, 0), np.float32)


def test_predicted_features_where_true_ones_belong_fail_the_check(tiny: TinyBundles, folders: dict[str, Path]) -> None:
    subject = Subject.load(open_bundle(tiny.bundle(draft=str(folders["distilled"]), gammas=GAMMAS)))
    stale = replace(subject, programs=Stale(subject.programs))  # type: ignore[arg-type]
    passed = {row.name: row.passed for row in check_core_agreement(stale, Silent())}
    assert passed == {"verifier against its core graph": True, "drafter against its core graph": False}


def test_an_independent_drafter_shares_the_verifiers_tables(
    tiny: TinyBundles, spoken: NDArray[np.int64], tmp_path: Path
) -> None:
    layer = layer_config(num_hidden_layers=2)
    config = speculator_config(layer, model_type="independent", head_rows=len(spoken))
    folder = write_speculator(tmp_path / "d", config, speculator_weights(layer, features=0, seed=4), spoken)
    bundle = tiny.bundle(draft=str(folder), gammas=GAMMAS)
    engine = Engine.load(bundle)
    info = engine.manifest.drafters["drafter"]
    assert (info.features, info.shares, info.head_rows) == (False, ("embedding",), len(spoken))
    for prompt in (PROMPT, [298]):
        plain = engine.generate(prompt, GREEDY, plain=True).finish().ids
        for gamma in GAMMAS:
            assert engine.generate(prompt, GREEDY, gamma=gamma).finish().ids == plain
    assert [row for row in check_bundle(bundle).rows if row.passed is False] == []


@pytest.mark.parametrize("precision", ["reference", "int8", "reference,kv=fp16"])
@pytest.mark.parametrize("name", MAKERS)
def test_fused_rounds_are_the_chained_ones(
    tiny: TinyBundles, folders: dict[str, Path], name: str, precision: str
) -> None:
    bundle = tiny.bundle(draft=str(folders[name]), precision=precision, gammas=(1, 3), fuse=True)
    fused, chained = Engine.load(bundle, fused=True), Engine.load(bundle)
    assert {program.max_width for program in fused._models._programs.rounds} == {2, 4}
    accepted = 0
    for prompt in (PROMPT, [298]):
        plain = chained.generate(prompt, GREEDY, plain=True).finish().ids
        for gamma in (1, 3):
            generation = fused.generate(prompt, GREEDY, gamma=gamma).finish()
            assert generation.ids == plain
            accepted += generation.stats.spec_decode_num_accepted_tokens
            expected = chained.generate(prompt, GREEDY, gamma=gamma).finish().stats
            assert generation.stats.spec_decode_num_drafts == expected.spec_decode_num_drafts
    assert accepted > 0 or name == "unlike both"


def test_fused_rounds_sample_what_chained_ones_do(tiny: TinyBundles, folders: dict[str, Path]) -> None:
    bundle = tiny.bundle(draft=str(folders["distilled"]), gammas=(1, 3), fuse=True)
    rows = {row.name: row.passed for row in check_bundle(bundle).rows}
    assert rows["rounds of drafter fused, gamma 1"]
    assert rows["rounds of drafter fused, gamma 3"]
    assert False not in rows.values()


def test_a_head_that_is_trimmed_already_is_not_trimmed_again(
    tiny: TinyBundles, folders: dict[str, Path], tmp_path: Path
) -> None:
    asked = {"draft_vocabulary": DraftVocabulary(count=20)}
    with refuses(OptionError, folders["distilled"], "tokens already; leave it out"):
        compile_bundle(options(tiny.model(), tmp_path / "out", str(folders["distilled"]), **asked))
