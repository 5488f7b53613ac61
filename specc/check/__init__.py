"""`specc check`: what a bundle promises, tried on this machine."""

from specc.check.checking import check_bundle

__all__ = ["check_bundle"]
