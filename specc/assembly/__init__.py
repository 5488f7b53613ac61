"""From what the user named to the core graphs a backend takes: sources, vocabularies, drafters, precision, calibration."""
