"""The checkpoint itself as a throw-away bundle in fp32, to measure a quantised verifier against."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from specc.assembly.calibration import calibration_ids, read_calibration
from specc.assembly.core_models import verifier_core
from specc.assembly.quality import CHUNK, distance, token_laws
from specc.assembly.sources import ModelSource
from specc.backends.record import Backend, EmitRequest
from specc.bundle.staging import Staging
from specc.options import parse_precision
from specc.targets import Target
from specc_runtime.bundle import Bundle

TOKENS = 512  # of the calibration text


def distance_from_checkpoint(
    bundle: Bundle, verifier: ModelSource, backend: Backend, target: Target, calibration: Path | None
) -> Mapping[str, float]:
    """KL and argmax agreement of the bundle's verifier with the checkpoint in fp32, on the calibration text."""
    ids = calibration_ids(read_calibration(calibration), verifier)[:TOKENS]
    stored = token_laws(bundle, ids)
    precision = parse_precision("reference").resolve(target.dtypes, verifier.dtype)
    width = min(CHUNK, bundle.manifest.context)
    core = verifier_core(verifier, precision, width + backend.slack + 1)
    with tempfile.TemporaryDirectory(dir=bundle.root.parent, prefix=".reference-") as folder:
        staging = Staging(Path(folder).resolve())
        request = EmitRequest(target=target, verifier=core, drafters={}, head_ids={}, gammas=(), prefill_width=width)
        programs = backend.emit(request, staging)
        staging.write_graphs(lambda _: None)
        manifest = replace(bundle.manifest, programs=programs, drafters={})
        return distance(token_laws(Bundle(staging.root, manifest), ids), stored)
