"""The canonical form of a spec, and what may change between two of them."""

from __future__ import annotations

import json

import pytest

from easeml_core.catalog import candidates_for
from easeml_core.spec import Spec, load_spec
from tests.spec.test_load import FULL, PROGRAM


def test_the_canonical_form_reads_back_through_json() -> None:
    for text in (FULL, PROGRAM):
        spec = load_spec(text)
        again = Spec.from_dict(json.loads(json.dumps(spec.as_dict(), allow_nan=False)))
        assert again == spec
        assert again.digest == spec.digest


def test_layout_does_not_change_the_digest_but_a_value_does() -> None:
    program, *rest = FULL.split("description", 1)
    reordered = (
        "# again\ndescription" + rest[0] + program.replace(" ", "  ").replace("program:  ", "program: ")
    )
    assert load_spec(reordered).digest == load_spec(FULL).digest
    assert load_spec(FULL.replace("0.98", "0.981")).digest != load_spec(FULL).digest


def test_nothing_changed() -> None:
    assert load_spec(FULL).changes(load_spec(FULL)) == ()


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("trials: 40", "trials: 10", "budget_trials"),
        ("device_hours: 2", "device_hours: 3", "budget_seconds"),
        ("archive", "museum", "description"),
        ("priority: 2", "priority: 3", "priority"),
        ("12-24", "12-25", "deadline"),
        ("0.98", "0.99", "stop_when"),
        ("[VGG-16]", "[NIN]", "exclude"),
        ('["*"]', '["V*", NIN]', "include"),
        ("accept_new: false", "accept_new: true", "accept_new"),
        ("{[Tensor[28", "{[picture :: Tensor[28", "program"),
    ],
)
def test_what_may_change(before: str, after: str, field: str) -> None:
    assert before in FULL
    (change,) = load_spec(FULL.replace(before, after)).changes(load_spec(FULL))
    assert (change.field, change.refused) == (field, None)
    assert str(change).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("before", "after", "field", "why"),
    [
        ("Tensor[28, 28, 1]", "Tensor[32, 32, 1]", "program", "the shape of the old program"),
        ("Tensor[10]", "Tensor[11]", "program", "the shape of the old program"),
        ("accuracy", "f1_macro", "objective", "could not be compared"),
        ("fraction: 0.25", "fraction: 0.3", "validation_fraction", "validation split"),
        ("seed: 7", "seed: 8", "validation_seed", "validation split"),
    ],
)
def test_what_may_not_change_once_there_is_data(before: str, after: str, field: str, why: str) -> None:
    changes = load_spec(FULL.replace(before, after)).changes(load_spec(FULL))
    (refused,) = [change for change in changes if change.refused]
    assert refused.field == field
    assert why in str(refused)


def test_a_spec_says_which_candidates_it_wants() -> None:
    names = candidates_for(load_spec(FULL), {"dynamic_range": 1e5})
    assert "ResNet-18+f0.8" in names
    assert not any(name.startswith("VGG-16") for name in names)
