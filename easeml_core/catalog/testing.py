"""What every candidate of a plug-in must keep; run it with pytest on yours.

    class TestMyModel(CandidateContract):
        def candidate(self): return my_package.MY_MODEL

`training.models.testing.TrainedContract` goes on from here and trains it.
"""

from __future__ import annotations

from dataclasses import replace

from easeml_core import catalog
from easeml_core.catalog.facts import Size
from easeml_core.catalog.plugged import Candidate, like, wrong_with


class CandidateContract:
    """The package must be installed: candidates are found by their entry points."""

    def candidate(self) -> Candidate:
        """The candidate under test."""
        raise NotImplementedError

    def sizes(self) -> list[Size]:
        """Sizes of data at which costs are tried out; images have three dimensions."""
        images = any(like(row).startswith("image-") for row in self.candidate().facts.templates)
        shapes = [(8, 8, 1), (64, 48, 3), (224, 224, 3)] if images else [(1,), (13,), (500,)]
        return [Size(shape, outputs, 1000, 40) for shape in shapes for outputs in (1, 2, 100)]

    def test_nothing_is_wrong_with_it(self) -> None:
        """Name, rows, family, costs."""
        assert wrong_with(self.candidate()) == []

    def test_it_is_in_the_catalogue(self) -> None:
        """Under its name, for each of its rows, after the catalogue's own."""
        facts = self.candidate().facts
        assert catalog.MODELS[facts.name] == facts
        for row in facts.templates:
            assert facts in catalog.models_for(row)
            assert 0 < catalog.strength(facts.name, row) <= 1

    def test_costs_are_above_0_and_do_not_fall_when_the_data_grows(self) -> None:
        """In examples and in outputs."""
        facts = self.candidate().facts
        for size in self.sizes():
            assert facts.forward(size) > 0
            assert facts.weights(size) > 0
            assert facts.work(size) <= facts.work(replace(size, n_train=2 * size.n_train))
            assert facts.work(size) <= facts.work(replace(size, outputs=size.outputs + 1))

    def test_its_features_are_its_own(self) -> None:
        """What the allocator knows of it before any trial is in [0, 1], and no other candidate's."""
        name = self.candidate().facts.name
        own = catalog.features(name)
        assert all(0 <= value <= 1 for value in own)
        assert [other for other in catalog.MODELS if catalog.features(other) == own] == [name]

    def test_its_space_can_be_searched(self) -> None:
        """It has a setting, and is the same when read back from a work order."""
        space = self.candidate().facts.search
        assert space.size >= 1
        assert catalog.Space.parse(space.document()) == space

    def test_what_builds_it_is_there(self) -> None:
        """And is a function."""
        assert callable(self.candidate().builder())
