"""One contract for every model of the catalogue."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core import catalog
from easeml_core.catalog import MODELS, ModelFacts, Size, Space
from easeml_core.catalog.facts import Machine
from easeml_core.catalog.halving import epochs_trained, least_epochs
from easeml_core.language import TEMPLATES, template
from easeml_core.naming import CandidateName

pytestmark = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))

SHAPES = {
    "image-classification": [(8, 8, 1), (28, 28, 1), (32, 32, 3), (64, 48, 3), (256, 256, 3)],
    "image-recovery": [(8, 8, 1), (28, 28, 1), (64, 48, 3)],
    "series-classification": [(1,), (6,), (100,)],
    "series-regression": [(1,), (6,), (100,)],
    "series-translation": [(1,), (6,)],
    "tree-classification": [(1,), (100,)],
    "general-classification": [(1,)],
    "general-autoencoder": [(1,)],
    "vector-classification": [(1,), (13,), (500,)],
    "vector-regression": [(1,), (13,), (500,)],
}


def test_facts_are_plausible(model: ModelFacts) -> None:
    assert model.templates <= {row.id for row in TEMPLATES}
    assert 1950 <= model.year <= 2026
    assert 1000 <= model.citations <= 1_000_000
    assert model.depth >= 1
    assert model.epochs >= 1
    assert model.batch_size >= 1
    assert model.reason
    assert model.description
    assert isinstance(model.search, Space)
    assert 1 <= model.settings_tried <= model.max_settings
    assert all(0 < expected < 1 for expected in model.expected.values())
    assert (model.fit is None) == (model.framework == "torch" and model.epochs > 1)
    assert str(CandidateName.parse(model.name)) == model.name


def test_the_row_names_the_model_or_its_family(model: ModelFacts) -> None:
    for row in map(template, model.templates):
        named = any(model.name.startswith(name) for name in row.models)
        assert named or model.name == "SmallCNN"  # ours, beside the paper's list


def test_costs_are_finite_and_positive(model: ModelFacts) -> None:
    for row in model.templates:
        for shape in SHAPES[row]:
            for outputs in (1, 2, 1000):
                facts = {"shape": list(shape), "outputs": outputs, "mean_length": 40, "n_train": 1000}
                assert 0 < model.flops(facts) < math.inf
                assert 0 < model.parameters(shape, outputs) < math.inf
                assert 0 < catalog.work(model.name, shape=shape, outputs=outputs, n_train=1) < math.inf


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_work_never_falls_when_the_data_grows(model: ModelFacts, data: st.DataObject) -> None:
    is_image = min(model.templates).startswith("image-")
    rank = 3 if is_image else 1
    sizes = data.draw(st.lists(st.integers(1, 300), min_size=rank, max_size=rank).map(tuple))
    outputs, n_train, length = (data.draw(st.integers(1, top)) for top in (50, 10_000, 500))
    base = catalog.work(model.name, shape=sizes, outputs=outputs, n_train=n_train, mean_length=length)
    axis = data.draw(st.integers(0, rank - 1))
    larger = (*sizes[:axis], sizes[axis] + data.draw(st.integers(1, 50)), *sizes[axis + 1 :])
    more = {"shape": larger, "outputs": outputs, "n_train": n_train, "mean_length": length}
    # A larger image may cost less: a stem that shrinks it more then fits.
    assert is_image or catalog.work(model.name, **more) >= base  # type: ignore[arg-type]
    for change in ({"outputs": outputs + 3}, {"mean_length": length + 9}):
        grown = {"shape": sizes, "outputs": outputs, "n_train": n_train, "mean_length": length, **change}
        assert catalog.work(model.name, **grown) >= base  # type: ignore[arg-type]
    twice = catalog.work(model.name, shape=sizes, outputs=outputs, n_train=2 * n_train, mean_length=length)
    assert twice > base or model.family == "linear"


def test_a_network_costs_three_passes_over_all_examples_for_each_epoch_and_what_comes_with_it(
    model: ModelFacts,
) -> None:
    shape = SHAPES[min(model.templates)][0]
    size = Size(shape, 10, 100, 30)
    least = least_epochs(size.n_train, model.batch_size)
    epochs = epochs_trained(model.settings_tried, model.epochs, least)
    bare = model.work(size, Machine(number=0, weight=0, call=0)) / (epochs * 100 * model.forward(size))
    if model.fit is None:
        assert bare == pytest.approx(3)
        assert model.work(size, Machine(1, 1, 1)) > model.work(size, Machine(0, 0, 0))


def test_features_and_strength(model: ModelFacts) -> None:
    lengths = {len(catalog.features(name)) for name in MODELS}
    assert len(lengths) == 1
    for name in (model.name, f"{model.name}+f0.2"):
        assert all(0 <= value <= 1 for value in catalog.features(name))
        for row in model.templates:
            assert 0 < catalog.strength(name, row) <= 1
    assert catalog.features(model.name) != catalog.features(f"{model.name}+f0.2")
    twins = [name for name in MODELS if catalog.features(name) == catalog.features(model.name)]
    assert twins == [model.name]
