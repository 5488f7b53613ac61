"""From what users name to the core graphs a backend takes: models, vocabularies, drafters, precision, calibration."""
