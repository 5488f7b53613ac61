"""Passes over the core graph: each a function `ir.Model -> ir.Model` in a file of its own name."""
