"""Real trees: the functions of Python's standard library, as binary trees of their syntax."""

from __future__ import annotations

import ast
import email.message
import statistics
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MODULES: tuple[ModuleType, ...] = (statistics, email.message)
WIDTH = 4


def functions(count: int, largest: int = 120) -> list[tuple[str, Any]]:
    """`count` pairs (module, tree) of functions with at most `largest` nodes, alternating between modules.

    A node is `{"value": [4 numbers that tell its type], "left": its first child, "right": its next sibling}`.
    """
    by_module = []
    for module in MODULES:
        found = ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        trees = [(module.__name__, node) for node in found if isinstance(node, ast.FunctionDef)]
        by_module.append([pair for pair in trees if sum(1 for _ in ast.walk(pair[1])) <= largest])
    pairs = [pair for both in zip(*by_module, strict=False) for pair in both][:count]
    return [(name, _binary([node])) for name, node in pairs]


def _binary(siblings: list[ast.AST]) -> Any:
    result = None
    for node in reversed(siblings):
        below = list(ast.iter_child_nodes(node))
        result = {"value": _numbers(node), "left": _binary(below) if below else None, "right": result}
    return result


def _numbers(node: ast.AST) -> list[float]:
    random = np.random.default_rng([*type(node).__name__.encode()])
    return [round(float(x), 3) for x in random.uniform(-1, 1, WIDTH)]


def flat(tree: Any) -> tuple[list[list[float]], list[list[int]]]:
    """Values and children of a tree, in pre-order."""
    values: list[list[float]] = []
    children: list[list[int]] = []

    def walk(node: Any) -> int:
        here = len(values)
        values.append(node["value"])
        children.append([-1, -1])
        for slot, link in enumerate(("left", "right")):
            if node[link] is not None:
                children[here][slot] = walk(node[link])
        return here

    walk(tree)
    return values, children
