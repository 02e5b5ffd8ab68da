"""Functions of Python's library, by the package they are from, as lines of JSON with a syntax tree each.

Source: the standard library of the Python that runs this. Names and constants are left out: only the shape of
a function's code tells. Trees are binary: a node links to its first child and to its next sibling.
"""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import SEED, Example, Layout, hold_back, write_jsonl

SPEC = """\
# A tree: each node holds 20 numbers and links to two others; to one of three classes.
program: "{input: {[Tensor[20]], [child, sibling]}, output: {[Tensor[3]], []}}"
description: which package a function is from, by its syntax tree
budget: {trials: 3}
"""

_PACKAGES = ("asyncio", "email", "unittest")
_EACH = 200
_NODES = range(12, 51)
# One number per kind of node; all other kinds share the last one.
_KINDS = [
    "Name",
    "Attribute",
    "Call",
    "Constant",
    "Expr",
    "Assign",
    "arg",
    "arguments",
    "Return",
    "If",
    "Compare",
    "keyword",
    "Tuple",
    "Raise",
    "FunctionDef",
    "Subscript",
    "BoolOp",
    "UnaryOp",
    "BinOp",
]


def build(layout: Layout) -> None:
    """Write data/functions.jsonl, and one function in five without its package to the held-back folder."""
    random = np.random.default_rng(SEED)
    package_of: dict[str, set[str]] = {}
    for package in _PACKAGES:
        for tree in _trees(package):
            package_of.setdefault(json.dumps(tree), set()).add(package)
    # The same code in two packages says nothing of either.
    trees = sorted((next(iter(found)), tree) for tree, found in package_of.items() if len(found) == 1)
    chosen = []
    for package in _PACKAGES:
        members = [pair for pair in trees if pair[0] == package]
        chosen += [members[i] for i in sorted(random.permutation(len(members))[:_EACH])]
    kept, held = hold_back(np.array([package for package, _ in chosen]), 0.2)
    data = layout.fresh(SPEC)
    write_jsonl(
        data / "functions.jsonl",
        ({"id": f"f{i:03d}", "label": chosen[i][0], "tree": json.loads(chosen[i][1])} for i in kept),
    )
    write_jsonl(
        layout.inputs / "functions.jsonl",
        ({"id": f"f{i:03d}", "tree": json.loads(chosen[i][1])} for i in held),
    )
    layout.write_labels((f"f{i:03d}", chosen[i][0]) for i in held)


def _trees(package: str) -> list[dict[str, Any]]:
    """The functions of a package's modules that are neither very short nor long, in the order of files."""
    folder = Path(str(importlib.import_module(package).__file__)).parent
    found = []
    for file in sorted(folder.glob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        found += [_binary(function, []) for function in functions if _size(function) in _NODES]
    return found


def _children(node: ast.AST) -> list[ast.AST]:
    """What is below a node, without the marks of whether a name is read or written."""
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]


def _size(node: ast.AST) -> int:
    return 1 + sum(map(_size, _children(node)))


def _binary(node: ast.AST, siblings: list[ast.AST]) -> dict[str, Any]:
    kind = type(node).__name__
    position = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
    tree: dict[str, Any] = {"value": [int(i == position) for i in range(len(_KINDS) + 1)]}
    children = _children(node)
    if children:
        tree["child"] = _binary(children[0], children[1:])
    if siblings:
        tree["sibling"] = _binary(siblings[0], siblings[1:])
    return tree


EXAMPLE = Example(
    TaskName("archive", "functions"), "syntax trees: JSON lines", "the most frequent class", build
)

if __name__ == "__main__":
    EXAMPLE.main()
