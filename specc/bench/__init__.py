"""Speculation against plain decoding, and against other engines."""
