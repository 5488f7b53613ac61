"""A distillation on one screen: text, vocabulary, training, report."""

import hashlib
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch
from tokenizers import Tokenizer

import specc
from specc.assembly.sources import ModelSource, open_model
from specc.checkpoint.speculator import default_feature_layers
from specc.checkpoint.types import TokenizerFiles
from specc.distill.acceptance import AcceptanceMeter
from specc.distill.chat_pieces import chat_pieces
from specc.distill.checkpoint import WEIGHTS, write_drafter
from specc.distill.corpus import Corpus
from specc.distill.drafters import DecoderDrafter, FeatureDrafter
from specc.distill.kept_tokens import kept_tokens
from specc.distill.machine import fastest_dtype, torch_device
from specc.distill.options import DistillOptions
from specc.distill.report import DistillReport
from specc.distill.text_phase import PHASE as TEXT
from specc.distill.text_phase import TextPhase, read_shards
from specc.distill.training import PHASE as TRAINING
from specc.distill.training import Training
from specc.distill.verifier import Verifier
from specc.distill.whole_seconds import WholeSeconds
from specc.distill.working_folder import WorkingFolder
from specc.errors import CheckpointError
from specc.progress import Progress, Silent


def distill(options: DistillOptions, progress: Progress | None = None) -> DistillReport:
    """Train a drafter for a verifier and write it to `options.output`; a run that was killed goes on where it was.

    Raises CheckpointError or OptionError. Until the end only `OUTPUT.work` is written to.
    """
    progress = progress or Silent()
    device = torch_device(options)
    with progress.step("opening the verifier"):
        source = open_model(options.verifier, ())
        files = _tokenizer(source)
        folder = WorkingFolder(options, weights_sha256(source))
        verifier = Verifier(source, fastest_dtype(device), device)
    budget = options.minutes * 60
    layers = default_feature_layers(source.spec.layers) if options.architecture == "feature" else ()
    pieces = chat_pieces(files, source.checkpoint.path)
    with progress.step("making text", int(budget * options.recipe.text_share)) as step:
        text = TextPhase(options, verifier, pieces, layers, folder)
        text.run(Tokenizer.from_str(files.json), WholeSeconds(step.advance))
    corpus = Corpus(read_shards(folder), pieces.opening, options.recipe.held_out)
    torch.manual_seed(options.seed)
    drafter = FeatureDrafter(verifier, len(layers)) if layers else DecoderDrafter(verifier)
    with progress.step("choosing the head's tokens"):
        ids = kept_tokens(corpus, verifier, options.head, files.eos_ids)
    meter = AcceptanceMeter(drafter, verifier.head[ids], ids, verifier.head)
    training = Training(options, drafter, meter, corpus, folder)
    left = budget - folder.spent(TEXT)
    with progress.step("training", int(left)) as step:
        training.run(left, WholeSeconds(step.advance))
    with progress.step("measuring acceptance"):
        best = training.best()
        greedy, sampled = training.measured(best)
    sha256 = write_drafter(options.output, best, ids, options, source, layers)
    facts = _facts(options, source, corpus, folder, len(ids), sha256)
    report = DistillReport(options.output, greedy, sampled, tuple(training.curve), facts)
    report.write()
    return report


def weights_sha256(source: ModelSource) -> str:
    """Hash of the verifier's weights: names and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(source.checkpoint.weights):
        digest.update(name.encode())
        digest.update(source.checkpoint.weights[name].numpy().tobytes())
    return digest.hexdigest()


def _tokenizer(source: ModelSource) -> TokenizerFiles:
    files = source.checkpoint.tokenizer
    if files is None:
        raise CheckpointError(f"{source.checkpoint.path}: no tokenizer to make text with; add tokenizer.json")
    return files


def _facts(
    options: DistillOptions, source: ModelSource, corpus: Corpus, folder: WorkingFolder, head_rows: int, sha256: str
) -> dict[str, Any]:
    return {
        "verifier": options.verifier,
        "verifier_sha256": weights_sha256(source),
        "licence": source.checkpoint.provenance.get("licence"),
        "architecture": options.architecture,
        "head_rows": head_rows,
        "weights_sha256": sha256,
        "weights_bytes": (options.output / WEIGHTS).stat().st_size,
        "seed": options.seed,
        "recipe": asdict(options.recipe),
        "text_files": [path.name for path in options.text],
        "text": {
            "conversations": len(corpus.trained) + len(corpus.held_out),
            "held_out": len(corpus.held_out),
            "tokens": corpus.tokens,
        },
        "seconds": {"text": folder.spent(TEXT), "training": folder.spent(TRAINING)},
        "machine": f"{options.device}, {torch.get_num_threads()} threads, {platform.machine()}",
        "toolchain": {
            "specc": specc.__version__,
            "torch": version("torch"),
            "python": platform.python_version(),
        },
        "command": options.command(),
    }
