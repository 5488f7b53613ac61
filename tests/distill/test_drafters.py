from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from specc.assembly.sources import open_model
from specc.distill.arithmetic import rms_norm, rotate, split_qkv
from specc.distill.drafters import DecoderDrafter, FeatureDrafter, Layer
from specc.distill.verifier import Verifier
from tests.distill.tiny_verifier import write_tiny_verifier

LENGTH, STEPS = 9, 4


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    folder: Path = write_tiny_verifier(tmp_path_factory.mktemp("verifier"))
    return Verifier(open_model(str(folder), ()), torch.float32, torch.device("cpu"))


def one_round(drafter: FeatureDrafter, tokens: Tensor, features: Tensor, start: int, steps: int) -> list[Tensor]:
    """States of a round as it is drafted: true features before `start`, one key a position, no batch."""
    spec, a, epsilon = drafter.spec, drafter.spec.attention, drafter.spec.epsilon
    layer = drafter.layers[0]
    assert isinstance(layer, Layer)
    cos, sin = (torch.from_numpy(t) for t in spec.rope.tables(LENGTH))
    keys, values, states, previous = [], [], [], torch.empty(0)
    for i in range(1, start + steps):
        if i <= start:
            rows = rms_norm(features[i - 1].reshape(-1, spec.hidden), None, epsilon).flatten() * drafter.fc_norm
            previous = drafter.fc @ rows
        residual = rms_norm(previous, drafter.hidden_norm, epsilon)
        embedded = rms_norm(drafter.embedded(tokens[i]), layer.input_norm, epsilon)
        query, key, value = split_qkv(spec, layer.qkv @ torch.cat([embedded, residual]))
        query, key = (
            rotate(rows.reshape(1, -1, 1, a.head_dim), cos[i - 1 : i], sin[i - 1 : i])[0, :, 0] for rows in (query, key)
        )
        keys.append(key)
        values.append(value.reshape(-1, a.head_dim))
        mixed = torch.cat(
            [
                torch.softmax(torch.stack([k[head * a.kv_heads // a.heads] for k in keys]) @ row * a.scale, -1)
                @ torch.stack([v[head * a.kv_heads // a.heads] for v in values])
                for head, row in enumerate(query)
            ]
        )
        stream = residual + layer.output @ mixed
        gate, up = (layer.gate_up @ rms_norm(stream, layer.mlp_norm, epsilon)).chunk(2)
        previous = stream + layer.down @ (functional.silu(gate) * up)
        states.append(rms_norm(previous, drafter.norm, epsilon))
    return states[start - 1 :]


def test_a_rollout_is_every_round_drafted_at_once(verifier: Verifier) -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    drafter = FeatureDrafter(verifier, 2)
    tokens = torch.randint(0, 300, (2, LENGTH), generator=generator)
    features = torch.randn(2, LENGTH, 64, generator=generator)
    with torch.no_grad():
        rolled = list(drafter.rollout(tokens, features, STEPS))
        for row in range(2):
            for start in range(1, LENGTH - STEPS + 1):
                drafted = one_round(drafter, tokens[row], features[row], start, STEPS)
                for step, state in enumerate(drafted):
                    torch.testing.assert_close(rolled[step][row, start + step], state, rtol=1e-4, atol=1e-5)


def test_a_decoder_sees_no_later_token(verifier: Verifier) -> None:
    drafter = DecoderDrafter(verifier)
    tokens = torch.arange(LENGTH)[None]
    changed = tokens.clone()
    changed[0, 5:] += 100
    with torch.no_grad():
        (before,), (after,) = (list(drafter.rollout(t, torch.empty(0), STEPS)) for t in (tokens, changed))
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0.0, atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)
