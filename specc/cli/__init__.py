"""The `specc` command: parses, calls, prints. What it calls is imported only when a command runs."""

from specc.cli.app import main

__all__ = ["main"]
