"""specc: ahead-of-time export toolchain for speculative decoding."""

__version__ = "0.1.0"
