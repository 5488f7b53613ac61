"""Checkpoints that compile in a fraction of a second, and bundles compiled from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc.options import CompileOptions, parse_draft, parse_precision
from specc.pipeline import compile_bundle
from specc.reports import CompileReport
from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json, write_hf_checkpoint

TOKENS = 300  # of the tokenizer; the last is the EOS
EOS = "<end>"
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"num_attention_heads": 8, "num_key_value_heads": 2},
}


def tiny_model(path: Path, family: str = "llama", *, seed: int = 0, tokenizer: str | None = "", **fields: Any) -> Path:
    """Write a checkpoint of three layers. tokenizer: its text; "": one of TOKENS ids; None: none."""
    config = decoder_config(**{"model_type": family, "num_hidden_layers": 3} | FAMILIES[family] | fields)
    text = tiny_tokenizer_json(TOKENS, [EOS]) if tokenizer == "" else tokenizer
    return write_hf_checkpoint(
        path, config, tiny_weights(config, seed), text, generation_config={"eos_token_id": TOKENS - 1}
    )


def tiny_weights(config: dict[str, Any], seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights of which the first layers say much of what all say: a slice of them drafts what is often kept."""
    embedding, linear = (0.3, 0.2) if config["tie_word_embeddings"] else (1.0, 0.12)

    def scaled(name: str, array: NDArray[np.float32]) -> NDArray[np.float32]:
        if "norm" in name:
            return (1 + 0.1 * array).astype(np.float32)
        residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        return (array * (embedding if "embed" in name else 0.06 if residual else linear)).astype(np.float32)

    return {name: scaled(name, array) for name, array in decoder_weights(config, seed).items()}


def options(
    model: Path, output: Path, draft: str = "slice:1", precision: str = "reference", **more: Any
) -> CompileOptions:
    """A compile of a tiny model: a context of 48, one thread, one gamma, few tokens to measure on, nothing timed."""
    calibration = model / "calibration.txt"
    calibration.write_text("the quick brown fox jumps over the lazy dog " * 2)
    fixed: dict[str, Any] = {"context": 48, "threads": 1, "gammas": (4,), "calibration": calibration, "measure": False}
    return CompileOptions(
        model=str(model),
        output=output,
        draft=parse_draft(draft),
        precision=parse_precision(precision),
        **fixed | more,
    )


def compiled(
    model: Path, output: Path, draft: str = "slice:1", precision: str = "reference", **more: Any
) -> CompileReport:
    """Compile it."""
    return compile_bundle(options(model, output, draft, precision, **more))


class TinyBundles:
    """Compiles each bundle once, below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: dict[tuple[object, ...], Path] = {}

    def model(self, family: str = "llama", **fields: Any) -> Path:
        """A checkpoint of `tiny_model`."""
        return self._once(("model", family, repr(fields)), lambda path: tiny_model(path, family, **fields))

    def bundle(
        self, model: Path | None = None, draft: str = "slice:1", precision: str = "reference", **more: Any
    ) -> Path:
        """A bundle of `compiled`; by default of the tiny llama."""
        source = model or self.model()
        key = ("bundle", source, draft, precision, repr(more))
        return self._once(key, lambda path: compiled(source, path, draft, precision, **more))

    def _once(self, key: tuple[object, ...], make: Callable[[Path], object]) -> Path:
        if key not in self._made:
            path = self._root / str(len(self._made))
            make(path)
            self._made[key] = path
        return self._made[key]
