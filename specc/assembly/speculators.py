"""Drafters that were trained for a verifier, in the `speculators` format."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import onnx_ir as ir

from specc.assembly.sources import ModelSource, embedding_rows
from specc.checkpoint.speculator import FeatureReading, Speculator, open_speculator
from specc.checkpoint.types import Checkpoint
from specc.errors import CheckpointError, VocabularyError
from specc.models.families import describe
from specc.models.features import FeatureTap
from specc.models.spec import DecoderSpec, WeightNames
from specc.models.step_graph import Tables, load_tables
from specc.models.weights import WeightLoader
from specc_runtime.manifest import VERIFIER, ModelInfo

NAMES = WeightNames(
    embedding="embed_tokens.weight", final_norm="norm.weight", head="lm_head.weight", layer="layers.{layer}."
)


@dataclass(frozen=True)
class TrainedDrafter:
    """A drafter and the verifier it was trained for, whose tables or features it may use. source: itself as a model."""

    speculator: Speculator
    source: ModelSource
    verifier: ModelSource

    @property
    def features(self) -> FeatureReading | None:
        """How it reads the verifier's features; None: it reads tokens alone."""
        return self.speculator.features

    def loader(self, role: str) -> WeightLoader:
        """Its own weights, named after `role`."""
        return WeightLoader(self.source.checkpoint.weights, self.speculator.path, f"{role}.")

    def tables(self, role: str) -> Tables:
        """Its embedding and its head; a table of the verifier's goes by the verifier's name."""
        spec, own, opened = self.source.spec, self.loader(role), self.speculator
        rows = spec.vocab_rows if opened.head_ids is None else len(opened.head_ids)
        embedding, head = self._verifier_tables()
        if not opened.shares_embedding:
            embedding = own.load("embedding", "embedding", [(spec.names.embedding, (spec.vocab_rows, spec.hidden))])
        if not opened.shares_head:
            head = own.load("head", "head", [(spec.names.head, (rows, spec.hidden))])
        return Tables(embedding, head)

    def tap(self, role: str) -> FeatureTap | None:
        """What the verifier's graph keeps for it; None: nothing."""
        if self.features is None:
            return None
        verifier, spec = self.verifier.spec, self.source.spec
        return FeatureTap(
            role, self.features, self.loader(role), verifier.layers, verifier.hidden, spec.hidden, spec.epsilon
        )

    def described(self, info: ModelInfo) -> ModelInfo:
        """The manifest's record `info` with what this format counts and names differently."""
        own = sum(prod(tensor.shape) for tensor in self.speculator.weights.values())
        head_rows = info.vocab_rows if self.speculator.head_ids is None else len(self.speculator.head_ids)
        shared = info.vocab_rows * self.speculator.shares_embedding + head_rows * self.speculator.shares_head
        model_type = info.model_type if self.features is None else self.speculator.architecture
        return replace(info, model_type=model_type, parameters=own + shared * info.hidden_size)

    def _verifier_tables(self) -> tuple[ir.Value, ir.Value]:
        checkpoint = self.verifier.checkpoint
        tables = load_tables(self.verifier.spec, WeightLoader(checkpoint.weights, checkpoint.path, f"{VERIFIER}."))
        return tables.embedding, tables.head


def open_trained(folder: Path, name: str, verifier: ModelSource, ignore: Collection[str]) -> TrainedDrafter:
    """Open a drafter's folder and compare it with the verifier.

    name: as the user wrote it. Raises CheckpointError, UnsupportedError, or VocabularyError when it was trained for
    another vocabulary.
    """
    opened = open_speculator(folder, name)
    where = f"{folder / 'config.json'}"
    spec = describe(opened.layer_config, where, ignore)
    rows = (
        verifier.spec.vocab_rows if opened.shares_embedding else embedding_rows(opened.weights, NAMES, spec.vocab_rows)
    )
    _check_vocabulary(opened, spec.vocab_rows, rows, verifier, where)
    spec = replace(spec, vocab_rows=rows, names=NAMES, tied_head=False)
    _check_sizes(opened, spec, verifier, where)
    checkpoint = Checkpoint(name, opened.path, opened.config, opened.weights, None, opened.provenance)
    source = ModelSource(checkpoint, spec, replace(verifier.vocabulary, count=min(rows, verifier.vocabulary.count)))
    return TrainedDrafter(opened, source, verifier)


def _check_vocabulary(opened: Speculator, stated: int, rows: int, verifier: ModelSource, where: str) -> None:
    theirs = verifier.spec.vocab_rows
    if (opened.shares_embedding or opened.shares_head) and stated != theirs:
        raise VocabularyError(
            f"{where}: vocab_size is {stated}, and the verifier's tables, which it shares, have {theirs} rows; "
            f"it was trained for {opened.verifier or 'another verifier'}"
        )
    count = verifier.vocabulary.count
    if rows < count:
        raise VocabularyError(
            f"{where}: its embedding has {rows} rows, the verifier emits ids up to {count - 1}; "
            f"it was trained for {opened.verifier or 'another verifier'}"
        )
    if opened.head_ids is not None and opened.head_ids[-1] >= count:
        raise VocabularyError(
            f"{opened.path}: d2t maps a head row to token {opened.head_ids[-1]}, the verifier emits ids up to "
            f"{count - 1}; it was trained for {opened.verifier or 'another verifier'}"
        )


def _check_sizes(opened: Speculator, spec: DecoderSpec, verifier: ModelSource, where: str) -> None:
    theirs = verifier.spec
    if (opened.shares_embedding or opened.shares_head) and spec.hidden != theirs.hidden:
        raise CheckpointError(
            f"{where}: hidden_size is {spec.hidden}, and the verifier's tables, which it shares, have {theirs.hidden} "
            f"columns; it was trained for {opened.verifier or 'another verifier'}"
        )
    if opened.features is None:
        return
    if not spec.layers:
        raise CheckpointError(f"{where}: num_hidden_layers is 0; a feature drafter has a layer that reads the features")
    for layer in opened.features.resolved_layers(theirs.layers):
        if not 0 <= layer <= theirs.layers:
            raise CheckpointError(
                f"{where}: eagle_aux_hidden_state_layer_ids names layer {layer} of a verifier with {theirs.layers}; "
                f"it was trained for {opened.verifier or 'another verifier'}"
            )
