"""Hyper-parameter spaces: their JSON, their points, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.catalog.halving import Rung, epochs_trained, rungs
from easeml_core.catalog.space import Choice, Float, Int, Space

NESTED = Space(
    learning_rate=Float(1e-4, 1e-1, scale="log"),
    layers=Int(1, 4),
    optimizer=Choice(Space(name="sgd", momentum=Float(0.5, 0.99)), Space(name="adamw")),
    width=Int(0, 3, scale="exp"),
    decay=Float(-4, -1, scale="exp"),
    seedless=True,
)


def _scaled(bounds: st.SearchStrategy[Any], kind: Any, scales: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda pair, scale: kind(*sorted(pair), scale=scale),
        st.tuples(bounds, bounds),
        st.sampled_from(scales),
    )


_NAMES = st.text(st.characters(categories=("Ll", "Nd")), min_size=1, max_size=4)
_CONSTANTS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
_DOMAINS = st.one_of(
    _scaled(st.integers(0, 6), Int, ("linear", "exp")),
    _scaled(st.floats(1e-6, 9.0), Float, ("linear", "log", "exp")),
    st.lists(_CONSTANTS, min_size=1, max_size=4, unique_by=json.dumps).map(lambda options: Choice(*options)),
)
_SPACES = st.recursive(
    st.dictionaries(_NAMES, _CONSTANTS | _DOMAINS, max_size=3).map(lambda named: Space(**named)),
    lambda inner: st.dictionaries(
        _NAMES,
        st.one_of(
            _DOMAINS,
            inner,
            st.lists(inner, min_size=1, max_size=2, unique_by=str).map(lambda o: Choice(*o)),
        ),
        max_size=3,
    ).map(lambda named: Space(**named)),
    max_leaves=4,
)


def contains(space: Space, setting: dict[str, Any]) -> bool:
    """Whether a setting is a point of the space, read off the document and not off our own code."""

    def fits(value: Any, document: Any) -> bool:
        if not isinstance(document, dict):
            return bool(value == document)
        if ".choice" in document:
            return any(fits(value, option) for option in document[".choice"])
        if bounds := document.get(".int") or document.get(".float"):
            if ".int" in document and value != int(value):
                return False
            low, high = (10.0**b if document.get(".scale") == "exp" else b for b in bounds)
            return bool(low * (1 - 1e-9) <= value <= high * (1 + 1e-9))
        return set(value) == set(document) and all(fits(value[k], document[k]) for k in document)

    return fits(setting, space.document())


@settings(max_examples=60, deadline=None)
@given(_SPACES, st.integers(1, 6), st.integers(0, 5))
def test_a_space_reads_back_and_its_settings_are_different_points_of_it(
    space: Space, most: int, seed: int
) -> None:
    assert Space.parse(json.loads(str(space))) == space
    tried = space.settings(most, seed)
    assert 1 <= len(tried) <= most
    assert len({json.dumps(setting) for setting in tried}) == len(tried)
    assert all(contains(space, setting) for setting in tried)
    assert tried == space.settings(most, seed)
    if space.size <= most:
        assert len(tried) == space.size


def test_the_words_of_a_space() -> None:
    assert NESTED.document() == {
        "learning_rate": {".float": [1e-4, 1e-1], ".scale": "log"},
        "layers": {".int": [1, 4]},
        "optimizer": {".choice": [{"name": "sgd", "momentum": {".float": [0.5, 0.99]}}, {"name": "adamw"}]},
        "width": {".int": [0, 3], ".scale": "exp"},
        "decay": {".float": [-4, -1], ".scale": "exp"},
        "seedless": True,
    }


def test_a_small_space_is_tried_whole_in_the_order_it_is_written() -> None:
    space = Space(a=Choice(3, 1), b=Int(0, 1, scale="exp"), c="x")
    assert space.size == 4
    assert space.settings(9, seed=0) == [
        {"a": a, "b": b, "c": "x"} for a, b in ((3, 1), (3, 10), (1, 1), (1, 10))
    ]
    assert Space().settings(9, seed=0) == [{}]
    assert Space(x=Float(2, 2)).settings(9, seed=0) == [{"x": 2.0}]


def test_a_scale_says_where_points_are() -> None:
    many = Space(rate=Float(1e-4, 1, scale="log"), decay=Float(-4, 0, scale="exp"), x=Float(0, 1))
    drawn = many.settings(400, seed=1)
    for name in ("rate", "decay"):
        logs = sorted(math.log10(setting[name]) for setting in drawn)
        assert logs[200] == pytest.approx(-2, abs=0.3), name
    assert sorted(setting["x"] for setting in drawn)[200] == pytest.approx(0.5, abs=0.1)
    assert NESTED.size == math.inf
    assert many.settings(400, seed=2) != drawn


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": {".int": [2, 1]}}, "a: the lower bound comes first"),
        ({"a": {".int": [1.5, 2]}}, "a: bounds of .int must be whole numbers; got 1.5"),
        ({"a": {".int": [True, 2]}}, "whole numbers"),
        ({"a": {".int": [1, 2], ".scale": "log"}}, "a: .scale must be one of linear, exp; got 'log'"),
        ({"a": {".float": [0, 1], ".scale": "log"}}, "a: a logarithmic scale starts above 0"),
        ({"a": {".float": [0, math.inf]}}, "a: bounds of .float must be finite numbers"),
        ({"a": {".float": [0, 999], ".scale": "exp"}}, "a: exponents must be within"),
        ({"a": {".float": [0, 1, 2]}}, "a: .float takes [low, high]"),
        ({"a": {".float": "0..1"}}, "a: .float takes a list"),
        ({"a": {".choice": []}}, "a: a .choice needs at least one option"),
        ({"a": {".choice": [1, 1]}}, "a: the options of a .choice must differ"),
        ({"a": {".choice": [1], ".scale": "log"}}, "a: one of .int, .float"),
        ({"a": {".int": [1, 2], ".float": [1, 2]}}, "a: one of .int, .float"),
        ({"a": {".scale": "log"}}, "a: one of .int, .float"),
        ({"a": math.nan}, "finite numbers"),
        ({".int": [1, 2]}, ".int is no name of a parameter"),
        ({"a": {".choice": [{"b": {".int": [2, 1]}}]}}, "a.choice[0].b: the lower bound comes first"),
        ({"a": {"b": {".int": [2, 1]}}}, "a.b: the lower bound comes first"),
    ],
)
def test_what_is_no_space_is_refused_by_its_place(document: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        Space.parse(document)
    assert str(caught.value).startswith(words) or words in str(caught.value)
    assert str(caught.value).count("a: ") <= 1


@given(st.integers(1, 40), st.integers(1, 200), st.integers(1, 200))
def test_a_plan_tries_all_settings_and_trains_one_to_the_end(count: int, epochs: int, least: int) -> None:
    plan = rungs(count, epochs, least)
    assert plan[0].keep == count
    assert plan[0].epochs >= min(least, epochs)
    assert plan[-1].epochs == epochs
    assert plan[-1].keep == (count if epochs <= least else 1)
    for one, other in itertools.pairwise(plan):
        assert one.epochs < other.epochs
        assert one.keep >= other.keep
    assert epochs <= epochs_trained(count, epochs, least) <= count * epochs


def test_plans_by_hand() -> None:
    assert rungs(1, 8) == (Rung(8, 1),)
    assert rungs(4, 9) == (Rung(1, 4), Rung(3, 2), Rung(9, 1))
    assert epochs_trained(4, 9) == 4 + 2 * 2 + 6
    assert rungs(9, 2) == (Rung(1, 9), Rung(2, 1))
