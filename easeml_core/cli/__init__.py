"""The `easeml` command."""
