from pathlib import Path

from specc.bundle.verifier_alone import verifier_alone
from specc_runtime.bundle import open_bundle
from tests.support.manifests import write_bundle


def test_only_the_drafters_are_gone(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path))
    alone = verifier_alone(bundle)
    assert (alone.root, alone.manifest.drafters, alone.manifest.programs) == (bundle.root, {}, bundle.manifest.programs)
    assert bundle.manifest.drafters
