"""What speculation costs and gains on this machine, measured with a bundle's own programs."""
