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
from easeml_core.catalog.plugged import Candidate
from easeml_core.catalog.space import Choice, Float, Int, Space

__all__ = [
    "MODELS",
    "Candidate",
    "Choice",
    "Float",
    "Int",
    "ModelFacts",
    "Size",
    "Space",
    "all_candidates",
    "candidates_for",
    "features",
    "matches",
    "models_for",
    "normalisers_for",
    "strength",
    "work",
]
