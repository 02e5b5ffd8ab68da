"""`task.yaml`: what a tenant asks for, read strictly, every problem named at once with its line."""

from easeml_core.spec.load import load_spec
from easeml_core.spec.spec import Change, Spec

__all__ = ["Change", "Spec", "load_spec"]
