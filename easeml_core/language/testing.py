"""What every row of a plug-in must keep; run it with pytest on yours.

class TestMyRow(TemplateContract):
    def template(self): return my_package.ROW
    def programs(self): return ["{input: {[Tensor[8, 8]], []}, output: {[Tensor[3]], []}}"]
"""

from __future__ import annotations

from easeml_core.language.matching import Match, match
from easeml_core.language.parser import parse
from easeml_core.language.table import TEMPLATES, wrong_with
from easeml_core.language.templates import Template


class TemplateContract:
    """The package must be installed: rows are found by their entry points."""

    def template(self) -> Template:
        """The row under test."""
        raise NotImplementedError

    def programs(self) -> list[str]:
        """Programs that must find it, without an objective unless it is told by one."""
        raise NotImplementedError

    def test_nothing_is_wrong_with_it(self) -> None:
        """Id, patterns, objectives, place, and whose data it reads."""
        assert wrong_with(self.template()) == []

    def test_it_stands_in_the_table_where_it_wants(self) -> None:
        """Once, and above the row it names."""
        ids = [row.id for row in TEMPLATES]
        assert ids.count(self.template().id) == 1
        assert ids.index(self.template().id) < ids.index(self.template().before)

    def test_its_programs_find_it(self) -> None:
        """With variables bound, and a reason for every row above."""
        assert self.programs()
        for text in self.programs():
            found = self._found(text)
            assert found.template == self.template(), text
            assert all(miss.reason for miss in found.misses)

    def test_data_of_its_programs_can_be_read(self) -> None:
        """By the forms of the row it reads like."""
        from easeml_core.data.forms import Form
        from easeml_core.spec import load_spec

        for text in self.programs():
            spec = load_spec(f"program: '{text}'\nobjective: {self.template().objectives[0]}\n")
            form = Form.of(spec)
            assert form.outputs >= 1
            assert min(form.shape) >= 1

    def _found(self, text: str) -> Match:
        row = self.template()
        return match(parse(text), row.objectives[0] if row.told_by_objective else None)
