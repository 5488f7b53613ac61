"""What other engines are told so that they do the same work as a bundle."""

from pathlib import Path

from specc.bench.options import BenchOptions
from specc.bench.peers.base import PeerSetup, Width
from specc.errors import BenchError
from specc_runtime.manifest import Manifest

_WIDTHS: dict[str, Width] = {"int8": "int8", "fp16": "fp16", "bf16": "fp16", "fp32": "fp32"}


def peer_setup(manifest: Manifest, options: BenchOptions, model: str | None, cache: Path) -> PeerSetup:
    """The setup for peers of a bundle. model: None: what the bundle was compiled from.

    Raises BenchError when the bundle does not say what that was.
    """
    source = model or manifest.provenance.get("verifier", {}).get("source")
    if source is None:
        raise BenchError("against: the bundle does not name its checkpoint; give --model")
    eos_ids = () if manifest.tokenizer is None or options.sampling.ignore_eos else manifest.tokenizer.eos_ids
    return PeerSetup(
        model=source,
        cache=cache,
        width=_width(manifest),
        threads=options.threads,
        context=manifest.context,
        end_ids=tuple(eos_ids),
    )


def _width(manifest: Manifest) -> Width:
    """What most bytes of the verifier's layers are stored in."""
    layers = [part for part in manifest.precision if part.part in ("verifier.attention", "verifier.mlp")]
    stored = max(layers, key=lambda part: part.bytes).stored if layers else "fp32"
    return _WIDTHS.get(stored, "fp32")
