"""Other engines on the same prompts: one adapter file an engine, imported in a process of its own."""
