"""Runs one work order in a process of its own: models, data loading, the loop, packaging."""
