from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from specc.assembly.sources import open_model
from specc.distill.verifier import Verifier
from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json, write_hf_checkpoint

CPU = torch.device("cpu")
TOKENS = torch.tensor([[5, 17, 250, 9, 31, 8, 77, 2], [1, 2, 3, 4, 5, 6, 7, 8]])


@pytest.fixture(params=[{}, {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, {"model_type": "qwen3"}])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    config = decoder_config(**request.param)
    weights = {name: array * 0.2 for name, array in decoder_weights(config).items()}
    return write_hf_checkpoint(tmp_path, config, weights, tiny_tokenizer_json(300))


def test_logits_and_features_are_those_of_transformers(folder: Path) -> None:
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        expected = reference(TOKENS, output_hidden_states=True)
    verifier = Verifier(open_model(str(folder), ()), torch.float32, CPU)
    states = verifier.forward(TOKENS, verifier.new_cache(2, 8), (0, 1))
    torch.testing.assert_close(verifier.logits(states.last), expected.logits, rtol=1e-4, atol=1e-5)
    features = torch.cat(expected.hidden_states[:2], -1)
    torch.testing.assert_close(states.features, features, rtol=1e-4, atol=1e-5)


def test_token_by_token_is_all_at_once(folder: Path) -> None:
    verifier = Verifier(open_model(str(folder), ()), torch.float32, CPU)
    whole = verifier.forward(TOKENS, verifier.new_cache(2, 8), (2,))
    cache = verifier.new_cache(2, 8)
    steps = [verifier.forward(TOKENS[:, i : i + 1], cache, (2,)) for i in range(8)]
    torch.testing.assert_close(torch.cat([s.last for s in steps], 1), whole.last, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([s.features for s in steps], 1), whole.features, rtol=1e-4, atol=1e-5)


def test_a_cache_repeated_goes_on_in_every_copy(folder: Path) -> None:
    verifier = Verifier(open_model(str(folder), ()), torch.float32, CPU)
    cache = verifier.new_cache(1, 3)
    verifier.forward(TOKENS[:1, :3], cache)
    grown = cache.repeat(2, 8)
    states = verifier.forward(TOKENS[:1, 3:5].expand(2, -1), grown)
    expected = verifier.forward(TOKENS[:1], verifier.new_cache(1, 8)).last[0, 3:5]
    for row in states.last:
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-5)
