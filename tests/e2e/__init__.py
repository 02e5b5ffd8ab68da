"""End-to-end tests: one installation of the whole stack, used by all modules of this folder in turn."""
