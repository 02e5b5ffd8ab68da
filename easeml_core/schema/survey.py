"""Goes through the samples of a data set and keeps what its schema needs of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from easeml_core.errors import Problem
from easeml_core.schema.links import LinkFacts
from easeml_core.schema.model import SINGLE, Category, Class, Field, Link, Node, Schema, Tensor, is_name
from easeml_core.schema.samples import CLASS_END, Held, Sample, entries, read_lines, read_sample

Place = tuple[str, str]
"""A node and a field of it."""
Fields = Mapping[str, Held | None]


class Survey:
    """All samples of some folders; `problems` holds everything that is wrong."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.problems: list[Problem] = []
        self.folders = folders
        self.classes: dict[str, list[str]] = {}
        self.first: Sample | None = None
        self.linked: bool | None = None
        self.links = LinkFacts()
        self.values: dict[Place, set[str]] = {}
        for number, folder in enumerate(folders):
            samples = []
            classes: dict[str, list[str]] = {}
            for entry in entries(folder, self._note):
                path = Path(entry.path)
                if entry.is_dir():
                    samples.append(path)
                elif entry.name.endswith(CLASS_END):
                    self._read_class(path, classes)
                else:
                    self._note(path, f"has no place beside the samples; only *{CLASS_END} has")
            if number and classes != self.classes:
                self._note(folder, f"has other classes than {folders[0].parent.name}")
            self.classes = self.classes or classes
            for path in samples:
                self._read(path)
        if self.first is None:
            self._note(folders[0], "holds no folder of a sample")

    def _note(self, path: Path, text: str) -> None:
        root = next(folder for folder in self.folders if path.is_relative_to(folder))
        where = path.relative_to(root.parent).as_posix()
        self.problems.append(Problem(where, text))

    def _read_class(self, path: Path, classes: dict[str, list[str]]) -> None:
        name = path.name.removesuffix(CLASS_END)
        lines = [line for line in read_lines(path, self._note) if line]
        if not is_name(name):
            self._note(path, f"{name!r} is no name (a-z, 0-9 and _, no digit first)")
        elif not lines:
            self._note(path, "lists no value")
        elif len(set(lines)) < len(lines):
            twice = next(line for line in lines if lines.count(line) > 1)
            self._note(path, f"lists {twice!r} twice")
        else:
            classes[name] = lines

    def _read(self, path: Path) -> None:
        sample = read_sample(path, self._note)
        if self.first is None:
            self.first = sample
            self.linked = sample.links is not None
        self._compare(path, self.first.singletons, sample.singletons)
        self._compare(path, dict.fromkeys(self.first.fields), dict.fromkeys(sample.fields))
        for name in self.first.fields.keys() & sample.fields.keys():
            self._compare(path / name, self.first.fields[name], sample.fields[name])
        for place, held in _places(sample):
            if held.dims is None:
                self.values.setdefault(place, set()).update(held.values)
        if (sample.links is not None) != self.linked:
            self._note(path, "either every sample has a file of links, or none")
        elif sample.links is not None:
            self._read_links(path, sample)

    def _compare(self, path: Path, wanted: Fields, found: Fields) -> None:
        for name in sorted(wanted.keys() ^ found.keys()):
            self._note(
                path, f"lacks {name}" if name in wanted else f"has {name}, which the first sample lacks"
            )
        for name in sorted(wanted.keys() & found.keys()):
            first, held = wanted[name], found[name]
            if first is None or held is None:
                continue
            if first.what != held.what:
                self._note(path, f"{name} is a {held.what} here, and a {first.what} in the first sample")
            elif first.dims != held.dims:
                dims = [list(d or ()) for d in (held.dims, first.dims)]
                self._note(path, f"{name} has dimensions {dims[0]} here, and {dims[1]} in the first sample")

    def _read_links(self, path: Path, sample: Sample) -> None:
        assert sample.links is not None
        if not sample.fields:
            self._note(path, "has a file of links, and no node with instances")
        for node, index in sorted({end for link in sample.links for end in link}):
            if node not in sample.instances:
                what = "a singleton" if node in sample.singletons else "no node"
                self._note(path, f"links lead from or to {node}, which is {what}")
                break
            if index >= sample.instances[node]:
                self._note(path, f"links lead to {node}/{index}, of {sample.instances[node]} instances")
                break
        else:
            self.links.add(sample.links)

    def schema(self) -> Schema:
        """The schema of what was seen; worth something only without problems."""
        first = self.first or Sample()
        classes = self._assign_classes()
        if self.linked is False:
            for name in first.fields:
                self.links.add_chain(name)

        def field(name: str, key: str, held: Held) -> Field:
            return Category(classes.get((name, key), "")) if held.dims is None else Tensor(held.dims)

        nodes = {
            name: Node(True, {SINGLE: field(name, SINGLE, held)}) for name, held in first.singletons.items()
        }
        for name, fields in first.fields.items():
            bounds = {to: Link(*held) for (of, to), held in self.links.bounds.items() if of == name}
            nodes[name] = Node(False, {key: field(name, key, held) for key, held in fields.items()}, bounds)
        undirected = bool(first.fields) and self.links.undirected
        # Bounds are of a whole kind of instances: added up, they can allow more than any one instance has.
        most = max(
            (sum(link.high or 0 for link in node.links.values()) for node in nodes.values()), default=0
        )
        return Schema(
            nodes,
            {name: Class(len(values)) for name, values in self.classes.items()},
            self.links.cyclic,
            undirected,
            self.links.fan_in or (undirected and most > 2),
        )

    def _assign_classes(self) -> dict[Place, str]:
        """A class for each category, with all its values: every class once, if possible, else the smallest.

        Whether every class is used is checked with the schema.
        """
        able: dict[Place, list[str]] = {}
        for place, values in self.values.items():
            able[place] = [name for name, held in self.classes.items() if values <= set(held)]
            able[place].sort(key=lambda name: (len(self.classes[name]), name))
            if not able[place]:
                nearest = min(self.classes.values(), key=lambda held: len(values - set(held)), default=[])
                where = place[0] if place[1] == SINGLE else "/".join(place)
                told = f", such as {min(values - set(nearest))!r}" if values else ""
                text = f"no class has all values of {where}{told}"
                self._note(self.folders[0], text)
        taken: dict[str, Place] = {}

        def use(name: str, tried: set[Place]) -> bool:
            for place in able:
                if name in able[place] and place not in tried:
                    tried.add(place)
                    held = next((other for other, at in taken.items() if at == place), None)
                    if held is None or use(held, tried):
                        taken[name] = place
                        return True
            return False

        for name in self.classes:
            use(name, set())
        chosen = {place: name for name, place in taken.items()}
        return {place: chosen.get(place, names[0]) for place, names in able.items() if names}


def _places(sample: Sample) -> Iterator[tuple[Place, Held]]:
    yield from (((name, SINGLE), held) for name, held in sample.singletons.items())
    for name, fields in sample.fields.items():
        yield from (((name, key), held) for key, held in fields.items())
