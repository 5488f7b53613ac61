"""Writing a bundle: weights once, graphs that point into them, a manifest over every file, all or nothing."""
