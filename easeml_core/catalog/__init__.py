"""Facts on candidate models and normalisers: no weights, nothing that trains, standard library only."""

from easeml_core.catalog.candidates import (
    MODELS,
    all_candidates,
    candidates_for,
    features,
    matches,
    models_for,
    normalisers_for,
    strength,
    work,
)
from easeml_core.catalog.facts import ModelFacts, Size

__all__ = [
    "MODELS",
    "ModelFacts",
    "Size",
    "all_candidates",
    "candidates_for",
    "features",
    "matches",
    "models_for",
    "normalisers_for",
    "strength",
    "work",
]
