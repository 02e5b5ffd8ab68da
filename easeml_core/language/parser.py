"""Reads a program, or says where it is wrong, what was found there and what was allowed.

The grammar is the paper's (Li et al., Ease.ml, PVLDB 11(5), figure 2); white space, line breaks and
comments (`#` to the end of the line) are free.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from easeml_core.errors import EasemlError
from easeml_core.language.program import MAX_DIM, DataType, Program, Tensor

if TYPE_CHECKING:
    from lark import Lark, Token

_GRAMMAR = r"""
start: "{" _INPUT ":" data_type "," _OUTPUT ":" data_type "}"
data_type: "{" tensors "," links "}"
tensors: "[" [tensor ("," tensor)*] "]"
links: "[" [NAME ("," NAME)*] "]"
tensor: [NAME _NAMES] _TENSOR "[" DIM ("," DIM)* "]"
_INPUT: /input(?!\w)/
_OUTPUT: /output(?!\w)/
_TENSOR: /Tensor(?!\w)/
_NAMES: "::"
NAME: /[a-z0-9_]+(?![A-Za-z0-9_])/
DIM: /[1-9][0-9]{0,8}(?![\w.])/
COMMENT: /#[^\n]*/
%ignore /\s+/
%ignore COMMENT
"""

_WORDS = {
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "_NAMES": "'::'",
    "_INPUT": "'input'",
    "_OUTPUT": "'output'",
    "_TENSOR": "'Tensor'",
    "NAME": "a field name (a-z, 0-9 and _)",
    "DIM": f"a dimension (a whole number from 1 to {MAX_DIM})",
    "$END": "the end",
}
_FOUND = re.compile(r"[-+]?[\w.]+|::|.", re.DOTALL)


class ProgramError(EasemlError):
    """A program that cannot be read; raised by `parse`, written back to the tenant.

    `line` and `column` count from 1 within the program's text. `found` is what stood there, `allowed` what
    could have stood there, each alternative in plain words.
    """

    def __init__(self, message: str, *, line: int, column: int, found: str, allowed: tuple[str, ...]) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.found = found
        self.allowed = allowed
        super().__init__(f"line {line}, column {column}: {message}")


def parse(text: str) -> Program:
    """Parse a program's text. Raises `ProgramError`.

    >>> parse("{input: {[Tensor[10]], [next]}, output: {[Tensor[2]], []}}").input.links
    ('next',)
    """
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    source, target = tree.children
    return Program(_data_type(source), _data_type(target))


@cache
def _parser() -> Lark:
    # The contextual lexer knows what may come next, so `input` and `10` can be field names too.
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=True)


def _data_type(tree: Any) -> DataType:
    fields, links = tree.children
    names: dict[str, Token] = {}
    tensors = []
    for name, *dims in (field.children for field in fields.children if field is not None):
        if name is not None:
            _note_name(names, name)
        tensors.append(Tensor(tuple(map(int, dims)), None if name is None else str(name)))
    given = [link for link in links.children if link is not None]
    for link in given:
        _note_name(names, link)
    return DataType(tuple(tensors), tuple(map(str, given)))


def _note_name(names: dict[str, Token], name: Token) -> None:
    first = names.setdefault(str(name), name)
    if first is not name:
        raise ProgramError(
            f"the field name '{name}' is already used in line {first.line}, column {first.column}; "
            "all names on one side must differ",
            line=name.line or 1,
            column=name.column or 1,
            found=f"'{name}'",
            allowed=("a name not used yet",),
        )


def _syntax_error(text: str, error: Any) -> ProgramError:
    token = getattr(error, "token", None)
    ended = token is not None and token.type == "$END"
    position = len(text) if ended else error.pos_in_stream or 0
    hit = _FOUND.match(text, position)
    found = f"'{hit.group()}'" if hit else "the end of the program"
    expected = getattr(error, "accepts", None) or getattr(error, "allowed", None) or set()
    allowed = tuple(words for name, words in _WORDS.items() if name in expected)
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    message = f"found {found}, where {' or '.join(allowed)} must stand"
    if found == "'['" and text[:position].rstrip().endswith("tensor"):
        message += "; Tensor[…] is written with a capital T"
    return ProgramError(
        message,
        line=line,
        column=column,
        found=found,
        allowed=allowed,
    )
