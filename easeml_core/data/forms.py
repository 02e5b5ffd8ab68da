"""What a program wants its data to look like, and one example of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from easeml_core.data.version import VersionFacts
    from easeml_core.language import DataType, Program
    from easeml_core.spec import Spec

Kind = Literal["image", "vector", "series", "tree", "bytes"]
TaskKind = Literal["classification", "regression", "recovery", "translation"]

# Kind of the inputs and of the task, by row of the template table.
_KINDS: dict[str, tuple[Kind, TaskKind]] = {
    "image-classification": ("image", "classification"),
    "image-recovery": ("image", "recovery"),
    "series-classification": ("series", "classification"),
    "series-regression": ("series", "regression"),
    "series-translation": ("series", "translation"),
    "tree-classification": ("tree", "classification"),
    "vector-classification": ("vector", "classification"),
    "vector-regression": ("vector", "regression"),
    "general-classification": ("bytes", "classification"),
    "general-autoencoder": ("bytes", "recovery"),
}
_BYTE = (1,)


@dataclass(frozen=True, slots=True)
class Form:
    """`shape` of one input: (H, W, C) of an image, (D,) of a vector, of one step of a series or of one node
    of a tree, (1,) of a byte. `outputs`: the K of `Tensor[K]`, classes at most or values to predict; of a
    recovery or translation, the numbers in `target_shape`, the shape of an image or a step to answer with.
    `program` is there where names of tensors and links matter."""

    kind: Kind
    task_kind: TaskKind
    shape: tuple[int, ...]
    outputs: int
    # Not in the text of a form: it is part of the digests of versions that have neither.
    target_shape: tuple[int, ...] | None = field(default=None, repr=False)
    program: Program | None = field(default=None, repr=False)

    @classmethod
    def of(cls, spec: Spec) -> Form:
        """The form that a spec's program asks for."""
        row = spec.match.template
        kind, task_kind = _KINDS[row.reads_like or row.id]
        inputs, outputs = spec.program.input, spec.program.output
        shape = _BYTE if kind == "bytes" else inputs.tensors[0].dims if kind == "image" else (_size(inputs),)
        if task_kind in ("classification", "regression"):
            program = spec.program if kind in ("tree", "bytes") or len(inputs.tensors) > 1 else None
            return cls(kind, task_kind, shape, outputs.tensors[0].dims[0], None, program)
        if kind == "image":
            target = outputs.tensors[0].dims
        else:
            target = _BYTE if kind == "bytes" else (_size(outputs),)
        return cls(kind, task_kind, shape, math.prod(target), target, spec.program)

    @classmethod
    def of_facts(cls, facts: VersionFacts) -> Form:
        """The form of the data that a version holds."""
        program = None
        if facts.program is not None:
            from easeml_core.language import parse

            program = parse(facts.program)
        return cls(facts.kind, facts.task_kind, facts.shape, facts.outputs, facts.target_shape, program)

    @property
    def identity(self) -> tuple[object, ...]:
        """What two data versions must share for one to grow out of the other; names do not matter."""
        shape = None if self.program is None else self.program.shape
        return (self.kind, self.task_kind, self.shape, self.outputs, self.target_shape, shape)

    @property
    def size(self) -> int:
        """Numbers per example (per step of a series, per node of a tree)."""
        return math.prod(self.shape)

    @property
    def is_long(self) -> bool:
        """Whether examples differ in length, in steps, nodes or bytes."""
        return self.kind in ("series", "tree", "bytes")

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the links of an input, in order."""
        return () if self.program is None else self.program.input.links

    @property
    def has_answers(self) -> bool:
        """Whether every example comes with an image, a series or bytes to answer with."""
        return self.target_shape is not None and not self.recovers_itself

    @property
    def recovers_itself(self) -> bool:
        """Whether the target of an example is the example."""
        program = self.program
        if self.kind != "bytes" or self.task_kind != "recovery" or program is None:
            return False
        inputs, links, outputs, output_links = program.shape
        return (inputs, links) == (outputs, output_links)

    def __str__(self) -> str:
        if self.kind == "bytes":
            return "objects of this program"
        dims = ", ".join(map(str, self.shape))
        return f"Tensor[{dims}]" + {"series": " per step", "tree": " per node"}.get(self.kind, "")


def _size(record: DataType) -> int:
    return sum(math.prod(tensor.dims) for tensor in record.tensors)


@dataclass(slots=True)
class Example:
    """One example as a reader found it.

    `value`: (H, W, C), (D,), (T, D) of steps or nodes, or (T, 1) of bytes; `children` (T, R) of a tree, see
    `version`. Of `label`, a class name, `target`, values to predict, and `answer`, an image (D, E, F) or
    (T', D) to answer with, at most one is set; `split` is "train" or "val" where the upload itself says so;
    `file` is where it came from, for people.
    """

    id: str
    file: str
    value: npt.NDArray[Any]
    label: str | None = None
    target: tuple[float, ...] | None = None
    split: str | None = None
    answer: npt.NDArray[Any] | None = None
    children: npt.NDArray[np.int64] | None = None


def split_hint(*names: str) -> str | None:
    """ "train" or "val" where one of the names, folders or a file's stem, says so.

    >>> split_hint("train"), split_hint("GunPoint_TEST"), split_hint("cat")
    ('train', 'val', None)
    """
    for name in names:
        last = name.lower().replace("-", "_").split("_")[-1]
        if last in ("train", "training"):
            return "train"
        if last in ("val", "valid", "validation", "test", "testing"):
            return "val"
    return None


def names_split(folder: str) -> bool:
    """Whether a folder of exactly this name stands for a split; `my_test` is a class."""
    return split_hint(folder) is not None and folder.isalpha()
