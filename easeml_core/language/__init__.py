"""The declarative language: a program says what goes in and what comes out, and nothing else.

`parse` reads a program, `str` prints it canonically (`parse(str(program)) == program`), and `match`
finds the first row of `TEMPLATES` that fits, or says for each row why it does not.
"""

from easeml_core.language.matching import Fit, Match, Miss, fits, match, template
from easeml_core.language.parser import ProgramError, parse
from easeml_core.language.program import DataType, Program, Tensor
from easeml_core.language.table import TEMPLATES
from easeml_core.language.templates import CLASSIFICATION, RECOVERY, REGRESSION, Template

__all__ = [
    "CLASSIFICATION",
    "RECOVERY",
    "REGRESSION",
    "TEMPLATES",
    "DataType",
    "Fit",
    "Match",
    "Miss",
    "Program",
    "ProgramError",
    "Template",
    "Tensor",
    "fits",
    "match",
    "parse",
    "template",
]
