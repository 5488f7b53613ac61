"""Bringing a core graph to the ops a backend has: rewrite rules, one folder a backend."""
