"""The declarative language: a program says what goes in and what comes out, and nothing else.

`parse` reads a program, `str` prints it canonically (`parse(str(program)) == program`), and `match`
finds the first row of `TEMPLATES` that fits, or says for each row why it does not.
"""

from easeml_core.language.parser import ProgramError, parse
from easeml_core.language.program import DataType, Program, Tensor
from easeml_core.language.templates import TEMPLATES, Match, Miss, Template, match, template

__all__ = [
    "TEMPLATES",
    "DataType",
    "Match",
    "Miss",
    "Program",
    "ProgramError",
    "Template",
    "Tensor",
    "match",
    "parse",
    "template",
]
