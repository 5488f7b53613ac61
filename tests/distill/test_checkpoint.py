import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from specc.assembly.sources import open_model
from specc.checkpoint.speculator import open_speculator
from specc.distill.checkpoint import write_drafter
from specc.distill.drafters import DecoderDrafter, Drafter, FeatureDrafter
from specc.distill.options import DistillOptions
from specc.distill.verifier import Verifier
from specc.models.families import describe
from tests.distill.tiny_verifier import write_tiny_verifier
from tests.support.speculators import FeatureDrafterReference

LAYERS, IDS = (1, 2, 3), torch.tensor([0, 3, 4, 100, 299])


@pytest.fixture
def verifier(tmp_path: Path) -> Verifier:
    source = open_model(str(write_tiny_verifier(tmp_path / "verifier")), ())
    return Verifier(source, torch.float32, torch.device("cpu"))


def written(drafter: Drafter, folder: Path, architecture: str = "feature") -> str:
    """Write the drafter, its weights rounded to what is stored; returns the hash."""
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.copy_((parameter + 0.1 * torch.randn_like(parameter)).half())
    options = DistillOptions("org/verifier", folder / "drafter", architecture=architecture)
    layers = LAYERS if architecture == "feature" else ()
    weights = {name: p.detach() for name, p in drafter.named_parameters()}
    source = open_model(str(folder / "verifier"), ())
    return write_drafter(options.output, weights, IDS, options, source, layers)


def test_what_is_written_computes_what_was_trained(verifier: Verifier, tmp_path: Path) -> None:
    torch.manual_seed(0)
    drafter = FeatureDrafter(verifier, len(LAYERS))
    sha256 = written(drafter, tmp_path)
    assert sha256 == hashlib.sha256((tmp_path / "drafter" / "model.safetensors").read_bytes()).hexdigest()
    opened = open_speculator(tmp_path / "drafter", "drafter")
    assert opened.verifier == "org/verifier"
    assert opened.head_ids is not None
    assert opened.head_ids.tolist() == IDS.tolist()
    assert opened.features is not None
    assert opened.features.layers == LAYERS

    tokens, features = torch.randint(0, 300, (1, 12)), torch.randn(1, 12, len(LAYERS) * 32)
    with torch.no_grad():
        (states,) = drafter.rollout(tokens, features, 1)
    flags = {name: getattr(opened.features, name) for name in ("norm_before_residual", "fc_norm")}
    weights = {name: tensor.numpy() for name, tensor in opened.weights.items()}
    reference = FeatureDrafterReference(opened.layer_config, weights, **flags)
    fused = reference.fused(np.split(features[0, :-1].double().numpy(), len(LAYERS), -1))
    expected, _ = reference.run(drafter.embedded(tokens[0, 1:]).double().numpy(), fused)
    np.testing.assert_allclose(states[0, 1:].numpy(), expected, rtol=1e-3, atol=1e-4)


def test_the_layer_is_a_llamas_of_the_verifiers_sizes(verifier: Verifier, tmp_path: Path) -> None:
    written(DecoderDrafter(verifier), tmp_path, "decoder")
    opened = open_speculator(tmp_path / "drafter", "drafter")
    assert (opened.architecture, opened.features) == ("independent", None)
    spec = describe(opened.layer_config, "drafter")
    assert (spec.attention, spec.mlp, spec.rope) == (verifier.spec.attention, verifier.spec.mlp, verifier.spec.rope)
    assert (spec.layers, spec.hidden, spec.vocab_rows) == (1, 32, 300)


def test_the_kept_tokens_are_marked_in_the_verifiers_vocabulary(verifier: Verifier, tmp_path: Path) -> None:
    written(FeatureDrafter(verifier, len(LAYERS)), tmp_path)
    tensors = load_file(tmp_path / "drafter" / "model.safetensors")
    assert tensors["t2d"].nonzero()[0].tolist() == IDS.tolist()
    assert (tensors["d2t"] + np.arange(len(IDS))).tolist() == IDS.tolist()
