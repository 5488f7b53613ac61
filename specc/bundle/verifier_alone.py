"""A bundle seen without its drafters, so that an engine loads no more than the verifier."""

from dataclasses import replace

from specc_runtime.bundle import Bundle


def verifier_alone(bundle: Bundle) -> Bundle:
    """The same folder under a manifest that names no drafter."""
    return Bundle(bundle.root, replace(bundle.manifest, drafters={}))
