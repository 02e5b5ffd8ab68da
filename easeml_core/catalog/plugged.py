"""Candidates of plug-ins (entry points `easeml.candidates`), beside those of the catalogue."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

from easeml_core import extensions
from easeml_core.catalog.facts import ModelFacts, Size
from easeml_core.errors import OperatorError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
# At which costs are tried out, by how many dimensions an input has.
_SIZES = {3: Size((32, 32, 3), 10, 1000), 1: Size((20,), 10, 1000, 50)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model of a plug-in: its facts, and what builds it, as `package.module:function`.

    What builds it is imported by the trainer only, so that a plug-in's entry point needs neither torch nor
    scikit-learn. Of `facts.framework`

    - "sklearn": `build(is_classification: bool, seed: int, threads: int)` gives an unfitted estimator that
      takes X (N, D) and fits class numbers (N,), with `predict_proba`, or values (N, K), with `predict`; the
      parameters of a setting are put in with `set_params`.
    - "torch": `build(geometry: training.models.Geometry, hidden: int)` gives a module from standardised
      inputs to (N, K) values, of classes before the softmax: (N, D) of vectors, (N, T, D) of series with NaN
      after their end, (N, C, H, W) of images. `hidden` is that of the setting.
    """

    facts: ModelFacts
    build: str

    def builder(self) -> Callable[..., Any]:
        """What builds the model. Raises OperatorError where it is not there."""
        module, _, name = self.build.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            text = f"{self.facts.name} is built by {self.build}, which is not there: {error}"
            raise OperatorError(text) from error
        return found  # type: ignore[no-any-return]


class Models(Mapping[str, ModelFacts]):
    """Facts by name: the catalogue's, then those of plug-ins, loaded when they are first looked at."""

    def __init__(self, own: Sequence[ModelFacts]) -> None:
        self._own = {facts.name: facts for facts in own}

    @cached_property
    def plugged(self) -> Mapping[str, Candidate]:
        """The candidates of plug-ins, by name."""
        found = extensions.load(
            extensions.CANDIDATES,
            Candidate,
            lambda held, others: wrong_with(held, [*self._own, *(other.facts.name for other in others)]),
        )
        return {held.facts.name: held for held in found}

    @cached_property
    def _all(self) -> Mapping[str, ModelFacts]:
        return self._own | {name: held.facts for name, held in self.plugged.items()}

    def __getitem__(self, name: str) -> ModelFacts:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def like(template: str) -> str:
    """The row of ease.ml that has the kind of data of this row; the row itself, if it is of ease.ml."""
    from easeml_core import language

    return language.template(template).reads_like or template


def wrong_with(candidate: Candidate, taken: Sequence[str] = ()) -> list[str]:
    """What is wrong with a candidate of a plug-in, in words; names that are `taken` cannot be its own."""
    from easeml_core.language import TEMPLATES

    facts = candidate.facts
    wrong = []
    if not _NAME.fullmatch(facts.name):
        wrong.append(f"a name is letters, digits, dots, hyphens and underscores; got {facts.name!r}")
    if facts.name in taken:
        wrong.append(f"there is a candidate {facts.name} already")
    rows = {row.id for row in TEMPLATES}
    if unknown := sorted(facts.templates - rows):
        wrong.append(f"{facts.name} is for {', '.join(unknown)}, and there is no such row")
    if not facts.expected or not all(0 < quality < 1 for quality in facts.expected.values()):
        wrong.append(f"{facts.name} must expect a quality between 0 and 1 for at least one row")
    families = get_args(get_type_hints(ModelFacts)["family"])
    if facts.family not in families:
        text = f"must be of one of the families {', '.join(families)}; got {facts.family!r}"
        wrong.append(f"{facts.name} {text}")
    if min(facts.epochs, facts.batch_size, facts.depth, facts.citations, facts.year - 1900) < 1:
        wrong.append(f"{facts.name} must have epochs, batch size, depth, citations of 1 or more, and a year")
    if (facts.fit is None) == (facts.framework == "sklearn"):
        wrong.append(f"{facts.name} must say what a fit costs if and only if scikit-learn fits it")
    if not candidate.build.partition(":")[2]:
        wrong.append(f"{facts.name} must be built by `module:function`; got {candidate.build!r}")
    for row in sorted(facts.templates & rows):
        size = _SIZES[3 if like(row).startswith("image-") else 1]
        costs = {"forward": facts.forward(size), "weights": facts.weights(size), "work": facts.work(size)}
        wrong += [
            f"{what} of {facts.name} must be a number above 0; got {cost!r} for {size}"
            for what, cost in costs.items()
            if not (isinstance(cost, int | float) and 0 < cost < math.inf)
        ]
    return wrong
