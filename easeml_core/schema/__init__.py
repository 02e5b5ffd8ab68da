"""The general schema: what programs compile to, what a `schema.json` says, what a data set directory has."""

from easeml_core.schema.generate import generate_data_set
from easeml_core.schema.infer import DataSet, infer_data_set, infer_schema
from easeml_core.schema.load import load_schema
from easeml_core.schema.match import Mapped, Unmatched, annotated, match_schemas
from easeml_core.schema.model import Category, Class, Link, Node, Schema, Tensor
from easeml_core.schema.programs import NoProgram, compile_program, compile_type, program_of, type_of
from easeml_core.schema.search import TooHard

__all__ = [
    "Category",
    "Class",
    "DataSet",
    "Link",
    "Mapped",
    "NoProgram",
    "Node",
    "Schema",
    "Tensor",
    "TooHard",
    "Unmatched",
    "annotated",
    "compile_program",
    "compile_type",
    "generate_data_set",
    "infer_data_set",
    "infer_schema",
    "load_schema",
    "match_schemas",
    "program_of",
    "type_of",
]
