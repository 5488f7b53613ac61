"""Compiled bundles decode as they promise: speculation changes no greedy token, and sampling stays in the law."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from specc.options import DraftVocabulary
from specc_runtime import Engine, SamplingParams
from specc_runtime.engines import load_programs
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.tiny_models import EOS, FAMILIES, TOKENS, TinyBundles

GAMMAS = tuple(range(1, 9))
PROMPTS = ([50, 60, 7, 8, 50, 60], [298])
GREEDY = SamplingParams(max_new_tokens=1000, ignore_eos=True)  # to the end of the context
PRECISIONS = (
    "balanced",
    "int8",
    "int8,head=fp32",
    "reference,kv=fp16",
    "reference,draft=int8",
    "attention=fp16,mlp=int8,head=fp32,draft=int8",
    "attention=bf16,mlp=bf16,head=bf16,embedding=bf16,draft=fp16",
    "embedding=fp16,kv=fp16,draft=bf16",
)


def assert_speculation_changes_nothing(bundle: Path, *, fused: bool = False, drafted: bool = True) -> None:
    engine = Engine.load(bundle, fused=fused)
    accepted = 0
    for prompt in PROMPTS:
        plain = engine.generate(prompt, GREEDY, plain=True).finish().ids
        assert len(plain) == engine.manifest.context - len(prompt)
        for gamma in engine.manifest.gammas:
            generation = engine.generate(prompt, GREEDY, gamma=gamma).finish()
            assert generation.ids == plain, f"gamma {gamma} after {prompt}"
            accepted += generation.stats.spec_decode_num_accepted_tokens
    assert accepted > 0 or not drafted


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("draft", ["slice:1", "ngram"])
def test_families(tiny: TinyBundles, family: str, draft: str) -> None:
    assert_speculation_changes_nothing(tiny.bundle(tiny.model(family), draft, gammas=GAMMAS))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions(tiny: TinyBundles, precision: str) -> None:
    assert_speculation_changes_nothing(tiny.bundle(precision=precision, gammas=GAMMAS))


@pytest.mark.parametrize("precision", ["reference", "int8", "reference,kv=fp16"])
def test_fused_rounds(tiny: TinyBundles, precision: str) -> None:
    bundle = tiny.bundle(precision=precision, gammas=(1, 4), fuse=True)
    assert_speculation_changes_nothing(bundle, fused=True)


def test_trimmed_head_in_fused_rounds(tiny: TinyBundles) -> None:
    bundle = tiny.bundle(gammas=(3,), fuse=True, draft_vocabulary=DraftVocabulary(count=200))
    assert_speculation_changes_nothing(bundle, fused=True)


def test_another_checkpoint_drafts(tiny: TinyBundles) -> None:
    """Another family, other sizes, other weights: next to nothing is accepted, and nothing changes."""
    stranger = tiny.model("qwen3", num_hidden_layers=1, hidden_size=32, seed=1)
    assert_speculation_changes_nothing(tiny.bundle(draft=str(stranger), gammas=GAMMAS), drafted=False)


def test_the_verifier_drafts_for_itself(tiny: TinyBundles) -> None:
    """The same checkpoint as drafter agrees with every token, so no round falls short."""
    bundle = tiny.bundle(draft=str(tiny.model()), gammas=(3,))
    generation = Engine.load(bundle).generate(PROMPTS[0], SamplingParams(max_new_tokens=41, ignore_eos=True))
    assert generation.finish().stats.spec_decode_num_accepted_tokens_per_pos == [10, 10, 10]


@pytest.mark.parametrize("precision", ["reference", "int8"])
@pytest.mark.parametrize("count", [2, 200, TOKENS])
def test_trimmed_head(tiny: TinyBundles, count: int, precision: str) -> None:
    bundle = tiny.bundle(precision=precision, draft_vocabulary=DraftVocabulary(count=count), gammas=GAMMAS)
    assert_speculation_changes_nothing(bundle, drafted=count > 2)


def test_head_trimmed_to_a_file(tiny: TinyBundles, tmp_path: Path) -> None:
    ids = [7, 3, 298, 299, 55, 8, 7]
    file = tmp_path / "ids.txt"
    file.write_text("\n".join(map(str, ids)))
    bundle = tiny.bundle(draft_vocabulary=DraftVocabulary(file=file), gammas=(2,))
    assert_speculation_changes_nothing(bundle, drafted=False)
    np.testing.assert_array_equal(np.load(bundle / "drafter.head_ids.npy"), sorted(set(ids)))
    engine = Engine.load(bundle)
    drafted = engine.generate([1, 2], SamplingParams(max_new_tokens=40, temperature=1.0, seed=3), gamma=2).finish()
    assert drafted.stats.spec_decode_num_draft_tokens > 20


@pytest.mark.parametrize(("verifier", "drafter"), [(TOKENS + 20, TOKENS), (TOKENS, TOKENS + 20), (320, 384)])
def test_padded_vocabularies(tiny: TinyBundles, verifier: int, drafter: int) -> None:
    """Rows behind the tokenizer's ids are padding: the two models may have any number of them."""
    model, other = tiny.model(vocab_size=verifier), tiny.model(vocab_size=drafter, seed=1)
    bundle = tiny.bundle(model, str(other), gammas=(3,), fuse=True)
    assert_speculation_changes_nothing(bundle, drafted=False)
    assert_speculation_changes_nothing(bundle, fused=True, drafted=False)
    engine = Engine.load(bundle)
    assert engine.manifest.verifier.vocab_rows == verifier
    sampled = engine.generate([5], SamplingParams(max_new_tokens=60, temperature=5.0, seed=0, ignore_eos=True))
    assert max(sampled.finish().ids) < TOKENS


@pytest.mark.parametrize("precision", ["reference", "int8"])
def test_padded_slice_shares_the_padded_head(tiny: TinyBundles, precision: str) -> None:
    bundle = tiny.bundle(tiny.model(vocab_size=320), precision=precision, gammas=(2,), fuse=True)
    assert_speculation_changes_nothing(bundle, fused=True)
    assert "head" in Engine.load(bundle).manifest.drafters["drafter"].shares


def test_drafter_with_fewer_tokens(tiny: TinyBundles) -> None:
    """A tokenizer that lacks the verifier's last ids can't propose them; its embedding has a row for each."""
    shorter = tiny.model(seed=1, tokenizer=tiny_tokenizer_json(TOKENS - 1))
    bundle = tiny.bundle(draft=str(shorter), gammas=(2,), fuse=True)
    assert_speculation_changes_nothing(bundle, drafted=False)
    assert_speculation_changes_nothing(bundle, fused=True, drafted=False)
    assert Engine.load(bundle).manifest.drafters["drafter"].head_rows == TOKENS - 1


def test_drafter_with_more_tokens(tiny: TinyBundles) -> None:
    larger = tiny.model(seed=1, vocab_size=310, tokenizer=tiny_tokenizer_json_with_more())
    assert_speculation_changes_nothing(tiny.bundle(draft=str(larger), gammas=(2,)), drafted=False)


def tiny_tokenizer_json_with_more() -> str:
    tokenizer = Tokenizer.from_str(tiny_tokenizer_json(TOKENS, [EOS]))
    tokenizer.add_tokens([f"extra{i}" for i in range(5)])
    return str(tokenizer.to_str())


def test_checkpoints_without_tokenizer(tiny: TinyBundles) -> None:
    model, other = tiny.model(tokenizer=None), tiny.model(tokenizer=None, seed=1)
    bundle = tiny.bundle(model, str(other), gammas=(2,))
    assert_speculation_changes_nothing(bundle, drafted=False)
    assert Engine.load(bundle).manifest.tokenizer is None


def test_drafter_with_a_shorter_context(tiny: TinyBundles) -> None:
    """It drafts as far as it reaches; the text goes on plainly to the verifier's end."""
    other = tiny.model(num_hidden_layers=1, max_position_embeddings=32)
    bundle = tiny.bundle(draft=str(other), gammas=(2, 4), fuse=True)
    assert_speculation_changes_nothing(bundle, drafted=False)
    assert_speculation_changes_nothing(bundle, fused=True, drafted=False)
    engine = Engine.load(bundle)
    assert engine.manifest.drafters["drafter"].model is not None
    assert engine.manifest.drafters["drafter"].model.context == 32


def test_smallest_context_with_the_largest_gamma(tiny: TinyBundles) -> None:
    bundle = tiny.bundle(context=16, gammas=(16,))
    assert_speculation_changes_nothing(bundle, drafted=False)


@pytest.mark.parametrize("acceptance", ["block", "token"])
@pytest.mark.parametrize("draft", ["slice:1", "ngram"])
def test_sampled_tokens_are_in_the_truncated_law(tiny: TinyBundles, draft: str, acceptance: str) -> None:
    """Every sampled token is one of the verifier's top_k after the text before it, by plain logits."""
    bundle = tiny.bundle(draft=draft, gammas=(3,))
    engine, programs = Engine.load(bundle), load_programs(Engine.load(bundle).bundle)
    texts = set()
    for seed in range(12):
        params = SamplingParams(
            max_new_tokens=40, temperature=1.5, top_k=3, seed=seed, ignore_eos=True, acceptance=acceptance
        )
        text = [5, 6, 5, 6, *engine.generate([5, 6, 5, 6], params).finish().ids]
        logits = programs.verify(np.array(text[:-1]), 0, len(text) - 1)
        ranks = (logits > logits[np.arange(len(logits)), text[1:]][:, None]).sum(axis=1)
        assert ranks[3:].max() <= 2
        assert ranks[3:].max() > 0
        texts.add(tuple(text))
    assert len(texts) == 12


def test_several_gammas_and_precision_of_one_bundle_share_one_weights_file(tiny: TinyBundles) -> None:
    one, many = tiny.bundle(gammas=(4,)), tiny.bundle(gammas=GAMMAS)
    sizes = [sum(file.stat().st_size for file in bundle.rglob("*.*")) for bundle in (one, many)]
    assert sizes[1] < sizes[0] * 1.02
