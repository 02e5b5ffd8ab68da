"""Reads one strict YAML 1.2 document and remembers on which line everything stands.

Strict means: a key given twice is an error that names both lines, values are text, numbers, booleans, lists
and mappings only, keys are text, aliases may not multiply, there is one document. `NO` is text, `1e-3` and
`1e3` are numbers; a timestamp stays text, for its field to judge.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.events import MappingEndEvent, MappingStartEvent, SequenceEndEvent, SequenceStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from easeml_core.errors import Problem, TenantError

Path = tuple[str | int, ...]

MAX_BYTES = 64 * 1024
MAX_VALUES = 10_000  # with aliases written out
MAX_DEPTH = 20
LARGEST = 2**63 - 1  # whole number
_TAG = "tag:yaml.org,2002:"
# Escapes in quoted text can name what neither PostgreSQL nor UTF-8 keeps.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PLAIN = {_TAG + name for name in ("str", "int", "float", "bool", "null")}

# What the parser says, in words that help a tenant.
_PLAIN_WORDS: tuple[tuple[str, str, str | None], ...] = (
    (r"found character '\\t'", "a tab stands here, and YAML is indented with spaces", "put spaces for it"),
    ("another document", "a second document begins here; the file holds one", "delete it, with its ---"),
    ("mapping values are not", "a second `: ` stands in one line", "put text that holds `: ` in quotes"),
    ("undefined alias", "`*` refers to a name that no `&` defines", "put text that begins with * in quotes"),
    ("unexpected end of stream", "a quote is opened and never closed", None),
    ("cannot start any token", "no value can begin with this character", "put the text in quotes"),
)


@dataclass(slots=True)
class Document:
    """The values as plain Python, and where they stand. `problems` holds what is wrong without stopping."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _lines: dict[Path, int] = field(default_factory=dict)
    _text_lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """Line of the key or item at `path`, else of the nearest thing around it; None for none."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return None

    def text_line(self, path: Path, line: int) -> int | None:
        """Line in the file of line `line` (from 1) of the text at `path`."""
        first = self._text_lines.get(path)
        return self.line(path) if first is None else first + line - 1

    def problem(
        self, path: Path, message: str, *, line: int | None = None, fix: str | None = None
    ) -> Problem:
        """A problem with the field at `path`; `line` overrides the field's own."""
        name = ".".join(map(str, path)) or None
        return Problem(self.file, message, line=line or self.line(path), field=name, fix=fix)


def read_document(content: bytes | str, file: str) -> Document:
    """Read a document whose top is a mapping.

    Raises `TenantError` where nothing can be read at all (size, encoding, syntax, an empty file); anything
    less goes to `Document.problems`.
    """
    text = _decode(content, file)
    # `%YAML 1.1` would turn NO into false.
    if directive := re.search(r"^%.*", text, re.MULTILINE):
        line = text.count("\n", 0, directive.start()) + 1
        raise _refused(file, f"`{directive.group()[:40]}` is not allowed", line, "delete this line")
    yaml = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # the latest one counts, as YAML has it
            _check_nesting(text, file)
            root = yaml.compose(io.StringIO(text))
    except YAMLError as error:
        raise _syntax_error(text, error, file) from None
    if root is None or (isinstance(root, ScalarNode) and not root.value.strip()):
        raise _refused(file, "is empty; at least `program` must be given", fix=PROGRAM_FIX)
    if not isinstance(root, MappingNode):
        raise _refused(file, "must hold fields such as `program:`, and holds none", 1, PROGRAM_FIX)
    document = Document(file)
    document.values = _Reader(document, yaml.constructor).mapping(root, ())
    return document


PROGRAM_FIX = "write `program: |` and, indented on the next line, the program"


def _check_nesting(text: str, file: str) -> None:
    """Refuse deep nesting event by event: composing it first would take long, and recurse too deep."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1
            raise _refused(file, f"values are nested more than {MAX_DEPTH} deep", line)


class _Reader:
    """Turns nodes into values; counts them, so that aliases cannot multiply."""

    def __init__(self, document: Document, constructor: Any) -> None:
        self.document = document
        self.constructor = constructor
        self.count = 0

    def mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        columns: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag not in _PLAIN | {_TAG + "merge"}:
                self._note(path, "a field's name must be text", line)
                continue
            if bad := _CONTROL.search(key.value):
                self._note(path, f"a field's name holds the character {_code(bad)}", line, "delete it")
                continue
            inner = (*path, key.value)
            if key.value in values:
                first, column = self.document.line(inner), key.start_mark.column + 1
                where = f"lines {first} and {line}"
                if first == line:
                    where = f"line {line}, at columns {columns[key.value]} and {column}"
                self._note(inner, f"is given twice, in {where}", line, "keep one of them")
                continue
            columns[key.value] = key.start_mark.column + 1
            self.document._lines[inner] = line
            values[key.value] = self.value(value, inner)
        return values

    def value(self, node: Node, path: Path) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            line = self.document.line(path)
            limit = f"{MAX_VALUES} values" if self.count > MAX_VALUES else f"{MAX_DEPTH} levels"
            raise _refused(self.document.file, f"holds more than {limit}, aliases written out", line)
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            values = []
            for number, item in enumerate(node.value):
                self.document._lines[(*path, number)] = item.start_mark.line + 1
                values.append(self.value(item, (*path, number)))
            return values
        return self._scalar(node, path)

    def _scalar(self, node: Node, path: Path) -> Any:
        first = node.start_mark.line + 1
        style = getattr(node, "style", None)
        if style != ">":  # folding joins lines, so that they cannot be told apart
            self.document._text_lines[path] = first + (style == "|")
        if node.tag == _TAG + "timestamp":
            return node.value
        if node.tag not in _PLAIN:
            self._note(
                path,
                f"the tag {repr(str(node.tag))[1:-1].replace(_TAG, '!!')} is not allowed",
                first,
                "delete it",
            )
            return None
        try:
            value = self.constructor.construct_object(node, deep=True)
            if isinstance(value, int | float) and not _is_usable(value, node.value):
                raise ValueError(node.value)
        except Exception:  # ruamel raises many classes on text that belies its tag
            self._note(path, f"{node.value[:40]!r} is no number that can be used", first)
            return None
        if isinstance(value, str) and (bad := _CONTROL.search(value)):
            self._note(path, f"the character {_code(bad)} is not allowed", first, "delete it")
            return _CONTROL.sub("\ufffd", value)  # so that nothing else is said of this text
        return value

    def _note(self, path: Path, message: str, line: int, fix: str | None = None) -> None:
        self.document.problems.append(self.document.problem(path, message, line=line, fix=fix))


def _code(found: re.Match[str]) -> str:
    return f"U+{ord(found.group()):04X}"


def _is_usable(value: float, text: str) -> bool:
    """Whether a number is one that Python, JSON and PostgreSQL all keep; `.inf` is left to its field."""
    if isinstance(value, int):
        return abs(value) <= LARGEST
    return not math.isinf(value) or "inf" in text.lower()


def _decode(content: bytes | str, file: str) -> str:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if len(raw) > MAX_BYTES:
        raise _refused(file, f"has {len(raw):,} bytes; at most {MAX_BYTES:,} are allowed")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refused(file, "is UTF-16; it must be UTF-8", fix="save the file as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        line = raw.count(b"\n", 0, error.start) + 1
        likely = bytes([byte]).decode("cp1252", "replace")
        text = f"is not UTF-8: byte 0x{byte:02x} ({likely!r} if the file is Latin-1 or Windows-1252)"
        raise _refused(file, text, line, "save the file as UTF-8") from None


def _syntax_error(text: str, error: YAMLError, file: str) -> TenantError:
    if not isinstance(error, MarkedYAMLError):
        position = int(getattr(error, "position", 0))
        character_line = text.count("\n", 0, position) + 1
        name = f"U+{getattr(error, 'character', 0):04X}"
        return _refused(file, f"the control character {name} is not allowed", character_line, "delete it")
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    said = f"{error.problem or error.context}"
    message, fix = f"no valid YAML: {said}", None
    for pattern, words, remedy in _PLAIN_WORDS:
        if re.search(pattern, said):
            message, fix = words, remedy
            break
    before = text.split("\n")[: line or 0]
    last_field = next((row for row in reversed(before) if re.match(r"\w+\s*:", row)), "")
    if re.match(r"program\s*:\s*[^|>\s]", last_field):
        fix = PROGRAM_FIX
    return _refused(file, message, line, fix)


def _refused(file: str, message: str, line: int | None = None, fix: str | None = None) -> TenantError:
    return TenantError([Problem(file, message, line=line, fix=fix)])
