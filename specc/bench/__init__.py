"""Speculation against plain decoding of the same bundle, and against other engines, on the same prompts in one run."""
