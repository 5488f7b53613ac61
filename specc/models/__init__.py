"""Decoder families: what a config.json means (one small file per `model_type`), and the core graph of a decoder."""
