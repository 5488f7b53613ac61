"""Are the bundle's files the ones its manifest describes?"""

from pathlib import Path

from specc.reports import CheckRow
from specc_runtime.bundle import open_bundle
from specc_runtime.errors import IntegrityError


def check_integrity(path: Path) -> CheckRow:
    """Every file's sha256. Raises BundleError or ManifestError when there is no bundle to speak of."""
    try:
        bundle = open_bundle(path, verify="hashes")
    except IntegrityError as error:
        return CheckRow("file hashes", False, str(error))
    return CheckRow("file hashes", True, f"{len(bundle.manifest.files)} files match the manifest")
