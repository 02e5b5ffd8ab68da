"""What a program wants its data to look like, and one example of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from easeml_core.errors import Problem, TenantError

if TYPE_CHECKING:
    from easeml_core.data.version import VersionFacts
    from easeml_core.spec import Spec

Kind = Literal["image", "vector", "series"]
TaskKind = Literal["classification", "regression"]

# Rows of the template table whose data can be staged.
_KINDS: dict[str, tuple[Kind, TaskKind]] = {
    "image-classification": ("image", "classification"),
    "vector-classification": ("vector", "classification"),
    "vector-regression": ("vector", "regression"),
    "series-classification": ("series", "classification"),
}


@dataclass(frozen=True, slots=True)
class Form:
    """`shape` of one input: (H, W, C) of an image, (D,) of a vector or of one step of a series.
    `outputs`: the K of `Tensor[K]`: classes at most, or values to predict."""

    kind: Kind
    task_kind: TaskKind
    shape: tuple[int, ...]
    outputs: int

    @classmethod
    def of(cls, spec: Spec) -> Form:
        """The form that a spec's program asks for. Raises `TenantError` where no reader serves it."""
        program = spec.program
        if spec.template not in _KINDS:
            text = f"data of a {spec.template} program cannot be read yet; it can be for {', '.join(_KINDS)}"
            raise TenantError([Problem("task.yaml", text, field="program")])
        if len(program.input.tensors) != 1:
            text = f"one tensor per example or step can be read; the program has {len(program.input.tensors)}"
            raise TenantError([Problem("task.yaml", text, field="program", fix="join them into one")])
        kind, task_kind = _KINDS[spec.template]
        return cls(kind, task_kind, program.input.tensors[0].dims, program.output.tensors[0].dims[0])

    @classmethod
    def of_facts(cls, facts: VersionFacts) -> Form:
        """The form of the data that a version holds."""
        return cls(facts.kind, facts.task_kind, facts.shape, facts.outputs)

    @property
    def size(self) -> int:
        """Numbers per example (per step, for a series)."""
        return int(np.prod(self.shape))

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"Tensor[{dims}]" + (" per step" if self.kind == "series" else "")


@dataclass(slots=True)
class Example:
    """One example as a reader found it.

    `value`: (H, W, C), (D,) or (T, D); `label` is a class name, `target` the values to predict, at most one
    of them is set; `split` is "train" or "val" where the upload itself says so; `file` is where it came
    from, for people.
    """

    id: str
    file: str
    value: npt.NDArray[Any]
    label: str | None = None
    target: tuple[float, ...] | None = None
    split: str | None = None


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
