"""A distillation on one screen: text, vocabulary, training, report."""

from __future__ import annotations

import hashlib

import torch
from tokenizers import Tokenizer

from specc.assembly.sources import ModelSource, open_model
from specc.distill.chat_pieces import chat_pieces
from specc.distill.machine import fastest_dtype, torch_device
from specc.distill.options import DistillOptions
from specc.distill.text_phase import TextPhase
from specc.distill.verifier import Verifier
from specc.distill.working_folder import WorkingFolder
from specc.errors import CheckpointError
from specc.progress import Progress, Silent


def distill(options: DistillOptions, progress: Progress | None = None) -> None:
    progress = progress or Silent()
    device = torch_device(options)
    with progress.step("opening the verifier"):
        source = open_model(options.verifier, ())
        files = source.checkpoint.tokenizer
        if files is None:
            raise CheckpointError(f"{source.checkpoint.path}: no tokenizer to make text with; add tokenizer.json")
        folder = WorkingFolder(options, weights_sha256(source))
        verifier = Verifier(source, fastest_dtype(device), device)
    layers = feature_layers(options, source)
    text = TextPhase(options, verifier, chat_pieces(files, source.checkpoint.path), layers, folder)
    seconds = int(options.minutes * 60 * options.recipe.text_share)
    with progress.step("making text", seconds) as step:
        text.run(Tokenizer.from_str(files.json), step.advance)


def feature_layers(options: DistillOptions, source: ModelSource) -> tuple[int, ...]:
    """Where features are read: early, middle and late, as in EAGLE-3 (Li et al. 2025)."""
    if options.architecture == "decoder":
        return ()
    layers = source.spec.layers
    return tuple(sorted({min(2, layers), layers // 2, max(layers - 3, 0)}))


def weights_sha256(source: ModelSource) -> str:
    """Hash of the verifier's weights by name."""
    digest = hashlib.sha256()
    for name in sorted(source.checkpoint.weights):
        digest.update(name.encode())
        digest.update(source.checkpoint.weights[name].numpy().tobytes())
    return digest.hexdigest()
