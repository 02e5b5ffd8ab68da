"""Reads a `schema.json` strictly: every problem at once, each with its path in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from easeml_core.errors import Problem, TenantError
from easeml_core.schema.model import (
    SINGLE,
    Category,
    Class,
    Dim,
    Field,
    Link,
    Node,
    Schema,
    Tensor,
    is_name,
    wildcard,
)

MAX_BYTES = 1024 * 1024
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON keeps exactly
NAME_RULE = "a name (a-z, 0-9 and _, no digit first)"


def load_schema(content: bytes | str | Mapping[str, Any], file: str = "schema.json") -> Schema:
    """The schema that a `schema.json` describes, given as its text or as what `json.loads` made of it.

    Raises `TenantError` with every problem; `Problem.field` is the path within the file.
    """
    if not isinstance(content, Mapping):
        content = _parse(content, file)
    reader = _Reader(file)
    schema = reader.schema(content)
    if reader.problems:
        raise TenantError(reader.problems)
    return schema


def _parse(content: bytes | str, file: str) -> Mapping[str, Any]:
    def refuse(message: str, line: int | None = None) -> NoReturn:
        raise TenantError([Problem(file, message, line=line)])

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice[:80]!r} is given twice in one object")
        return values

    if len(content) > MAX_BYTES:
        refuse(f"is larger than {MAX_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        values = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        refuse(f"is no valid JSON: {error.msg}", error.lineno)
    except UnicodeDecodeError:
        refuse("is not UTF-8")
    except (ValueError, RecursionError) as error:
        refuse("is nested too deep" if isinstance(error, RecursionError) else str(error))
    if not isinstance(values, dict):
        refuse("must hold an object with `nodes`")
    return values


class _Reader:
    """Builds a schema and notes what is wrong; what it returns counts only if nothing was."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def note(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.file, message, field=path or None))

    def schema(self, values: Mapping[str, Any]) -> Schema:
        self.keys(values, "", {"nodes", "classes", "ref-constraints", "src-dims"})
        nodes = {
            name: self.node(held, f"nodes.{name}")
            for name, held in self.named(values.get("nodes"), "nodes").items()
        }
        if not nodes and isinstance(values.get("nodes"), dict):
            self.note("nodes", "at least one node is needed")
        classes = {
            name: self.category_class(held, f"classes.{name}")
            for name, held in self.named(values.get("classes", {}), "classes").items()
        }
        constraints = self.mapping(values.get("ref-constraints", {}), "ref-constraints")
        self.keys(constraints, "ref-constraints", {"cyclic", "undirected", "fan-in"})
        cyclic, undirected, fan_in = (
            self.flag(constraints, name, f"ref-constraints.{name}")
            for name in ("cyclic", "undirected", "fan-in")
        )
        src_dims = None
        if "src-dims" in values:
            src_dims = {
                name: self.size(held, f"src-dims.{name}")
                for name, held in self.named(values["src-dims"], "src-dims").items()
            }
        schema = Schema(nodes, classes, cyclic, undirected, fan_in, src_dims)
        if not self.problems:
            self.references(schema)
        return schema

    def node(self, held: Any, path: str) -> Node:
        values = self.mapping(held, path)
        singleton = self.flag(values, "singleton", f"{path}.singleton")
        src_name = self.src_name(values, path)
        links = {
            name: self.link(bounds, f"{path}.links.{name}")
            for name, bounds in self.named(values.get("links", {}), f"{path}.links").items()
        }
        fields: dict[str, Field] = {}
        if singleton and not values.get("fields"):
            own = {"singleton", "fields", "links", "src-name"}
            fields[SINGLE] = self.field({key: value for key, value in values.items() if key not in own}, path)
        else:
            self.keys(values, path, {"singleton", "fields", "links", "src-name"})
            for name, inner in self.named(values.get("fields", {}), f"{path}.fields").items():
                fields[SINGLE if singleton and not fields else name] = self.field(
                    inner, f"{path}.fields.{name}"
                )
        if singleton and links:
            self.note(f"{path}.links", "a singleton has no links")
        if singleton and len(fields) > 1:
            self.note(f"{path}.fields", f"a singleton has one field, not {len(fields)}")
        if not fields and not links:
            self.note(path, "a node needs a field or a link")
        return Node(singleton, fields, links, src_name)

    def field(self, held: Any, path: str) -> Field:
        values = self.mapping(held, path)
        kind = values.get("type")
        src_name = self.src_name(values, path)
        if kind == "category":
            self.keys(values, path, {"type", "class", "src-name"})
            return Category(self.name(values.get("class"), f"{path}.class"), src_name)
        if kind != "tensor":
            self.note(f"{path}.type", f"must be tensor or category; got {_shown(kind)}")
            return Tensor((1,))
        self.keys(values, path, {"type", "dim", "src-name", "src-dim"})
        dims = self.dims(values.get("dim"), f"{path}.dim")
        open_dims = [dim for dim in dims if wildcard(dim)]
        if len(open_dims) > 1:
            self.note(f"{path}.dim", f"at most one dimension may end with ?, + or *; here are {open_dims}")
        if len(dims) == 1 and wildcard(dims[0]) in ("?", "*"):
            self.note(f"{path}.dim", f"{dims[0]} alone would allow a tensor without dimensions")
        src = self.dims(values["src-dim"], f"{path}.src-dim") if "src-dim" in values else None
        return Tensor(dims, src_name, src)

    def dims(self, held: Any, path: str) -> tuple[Dim, ...]:
        if not isinstance(held, list) or not held:
            self.note(path, f"must be a list of one or more dimensions; got {_shown(held)}")
            return (1,)
        return tuple(self.size(dim, f"{path}[{number}]", wildcards=True) for number, dim in enumerate(held))

    def size(self, held: Any, path: str, *, wildcards: bool = False) -> Dim:
        text = held[:-1] if wildcards and isinstance(held, str) and held and wildcard(held) else held
        if is_name(text) or (_is_whole(held) and 1 <= held <= LARGEST):
            size: Dim = held
            return size
        more = ", at the end of which ?, + or * may stand" if wildcards else ""
        self.note(path, f"must be a whole number above 0, or {NAME_RULE}{more}; got {_shown(held)}")
        return 1

    def link(self, held: Any, path: str) -> Link:
        low, high = held if isinstance(held, list) and len(held) == 2 else (held, held)
        if not _is_whole(low) or low < 0 or not (high == "inf" or (_is_whole(high) and high >= 1)):
            rule = "a whole number above 0, or [low, high] with low from 0 and high from 1 or inf"
            self.note(path, f"must be {rule}; got {_shown(held)}")
            return Link(0, None)
        if high != "inf" and low > high:
            self.note(path, f"the lower bound {low} is above the upper bound {high}")
        return Link(low, None if high == "inf" else high)

    def category_class(self, held: Any, path: str) -> Class:
        values = self.mapping(held, path)
        self.keys(values, path, {"dim", "src-name"})
        return Class(self.size(values.get("dim"), f"{path}.dim"), self.src_name(values, path))

    def references(self, schema: Schema) -> None:
        """What must hold between the parts."""
        used = set()
        for name, node in schema.nodes.items():
            for key, held in node.fields.items():
                if isinstance(held, Category):
                    used.add(held.of)
                    if held.of not in schema.classes:
                        path = f"nodes.{name}" + ("" if node.singleton else f".fields.{key}")
                        self.note(f"{path}.class", f"the class {held.of} is not declared under classes")
            for target in node.links:
                if target not in schema.nodes or schema.nodes[target].singleton:
                    what = "a singleton" if target in schema.nodes else "no node"
                    self.note(f"nodes.{name}.links.{target}", f"links lead to nodes; {target} is {what}")
            highs = [link.high for link in node.links.values()]
            if schema.undirected and not schema.fan_in and (None in highs or sum(h or 0 for h in highs) > 2):
                text = "undirected without fan-in allows two links per instance in all"
                self.note(f"nodes.{name}.links", f"{text}; the upper bounds add up to more")
        for name in schema.classes:
            if name not in used:
                self.note(f"classes.{name}", "no category is of this class")

    def mapping(self, held: Any, path: str) -> Mapping[str, Any]:
        if isinstance(held, dict):
            return held
        self.note(path, f"must be an object; got {_shown(held)}")
        return {}

    def named(self, held: Any, path: str) -> Mapping[str, Any]:
        """An object whose keys are names."""
        values = self.mapping(held, path)
        for key in values:
            if not is_name(key):
                self.note(path, f"the key {_shown(key)} must be {NAME_RULE}")
        return values

    def keys(self, values: Mapping[str, Any], path: str, known: set[str]) -> None:
        for key in values:
            if key not in known:
                self.note(path, f"the key {_shown(key)} is not known here; known: {', '.join(sorted(known))}")

    def flag(self, values: Mapping[str, Any], key: str, path: str) -> bool:
        held = values.get(key, False)
        if not isinstance(held, bool):
            self.note(path, f"must be true or false; got {_shown(held)}")
        return held is True

    def name(self, held: Any, path: str) -> str:
        if not is_name(held):
            self.note(path, f"must be {NAME_RULE}; got {_shown(held)}")
        return str(held)

    def src_name(self, values: Mapping[str, Any], path: str) -> str | None:
        return self.name(values["src-name"], f"{path}.src-name") if "src-name" in values else None


def _is_whole(held: Any) -> bool:
    return isinstance(held, int) and not isinstance(held, bool)


def _shown(held: Any) -> str:
    if isinstance(held, dict):
        return "an object"
    if isinstance(held, list):
        return (
            "[" + ", ".join("a list" if isinstance(item, list) else _shown(item) for item in held[:5]) + "]"
        )
    text = "nothing" if held is None else json.dumps(held, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
