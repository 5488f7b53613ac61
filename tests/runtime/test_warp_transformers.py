"""The same options mean the same law as in transformers."""

from typing import Any

import numpy as np
import pytest

from specc_runtime.history import TokenHistory
from specc_runtime.params import SamplingParams
from specc_runtime.warp import Warper

torch = pytest.importorskip("torch")
processors = pytest.importorskip("transformers.generation.logits_process")

VOCABULARY = 400
EOS = 3


def processor_list(options: dict[str, Any], prompt_length: int) -> Any:
    makers = {
        "logit_bias": lambda bias: processors.SequenceBiasLogitsProcessor([[[t], b] for t, b in bias.items()]),
        "repetition_penalty": processors.RepetitionPenaltyLogitsProcessor,
        "forbidden_token_ids": lambda ids: processors.SuppressTokensLogitsProcessor(ids, device="cpu"),
        "min_new_tokens": lambda n: processors.MinNewTokensLengthLogitsProcessor(prompt_length, n, EOS, device="cpu"),
        "temperature": processors.TemperatureLogitsWarper,
        "top_k": processors.TopKLogitsWarper,
        "top_p": processors.TopPLogitsWarper,
        "min_p": processors.MinPLogitsWarper,
    }
    return processors.LogitsProcessorList([make(options[name]) for name, make in makers.items() if name in options])


@pytest.mark.parametrize("seed", range(30))
def test_laws_equal_transformers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {
        "temperature": float(rng.choice([0.5, 0.8, 1.3])),
        "top_k": int(rng.integers(2, 60)),
        "top_p": float(rng.uniform(0.3, 0.99)),
        "min_p": float(rng.uniform(0.001, 0.2)),
        "repetition_penalty": float(rng.uniform(0.8, 1.8)),
        "logit_bias": {5: 2.5, 9: -1.5},
        "forbidden_token_ids": [7, 11],
        "min_new_tokens": 4,
    }
    kept = {name: value for name, value in options.items() if name == "temperature" or rng.random() < 0.6}
    prompt, output, drafted = ([int(x) for x in rng.integers(0, VOCABULARY, n)] for n in (20, 2, 3))
    logits = (rng.standard_normal((4, VOCABULARY)) * 3).astype(np.float32)
    params = SamplingParams(**kept)
    warper = Warper(params, vocab_rows=VOCABULARY, token_count=VOCABULARY, eos_ids=(EOS,), max_rows=4)
    history = TokenHistory(prompt, VOCABULARY)
    history.extend(output)
    laws = warper.laws(logits, history, drafted)
    for i in range(4):
        ids = torch.tensor([prompt + output + drafted[:i]])
        scores = processor_list(kept, len(prompt))(ids, torch.from_numpy(logits[i : i + 1].copy()))
        expected = torch.softmax(scores.double(), dim=-1)[0].numpy()
        assert np.array_equal(laws[i] > 0, expected > 1e-12)
        np.testing.assert_allclose(laws[i], expected, rtol=1e-4, atol=1e-7)
