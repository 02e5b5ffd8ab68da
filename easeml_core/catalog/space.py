"""Hyper-parameter spaces: what a trial searches, declared by each candidate.

    Space(learning_rate=Float(1e-4, 1e-1, scale="log"), layers=Int(1, 4), optimizer=Choice("adamw", "sgd"))

A parameter is an `Int`, a `Float`, a `Choice` or a constant; an option of a choice may be a space of its own,
so that a parameter can depend on another one. The words are those of ease.ml's configuration files: the
canonical JSON of the space above is

    {"learning_rate": {".float": [0.0001, 0.1], ".scale": "log"}, "layers": {".int": [1, 4]},
     "optimizer": {".choice": ["adamw", "sgd"]}}

A *setting* is one point: a value for every parameter.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Setting = dict[str, Any]

_ROUNDS = 50  # of drawing; a space that gave too few different settings by then has hardly more


@dataclass(frozen=True, slots=True)
class Int:
    """Whole numbers from `low` to `high`, both included; with scale `exp`, 10 to the power of them."""

    low: int
    high: int
    scale: Literal["linear", "exp"] = "linear"

    def __post_init__(self) -> None:
        _check_scale(self.scale, ("linear", "exp"))
        for bound in (self.low, self.high):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise ValueError(f"bounds of .int must be whole numbers; got {bound!r}")
        _check_order(self.low, self.high)
        if self.scale == "exp" and self.low < 0:
            raise ValueError(f"the exponents of whole numbers start at 0; got {self.low}")

    @property
    def size(self) -> float:
        """How many values there are."""
        return self.high - self.low + 1

    def values(self) -> Iterator[int]:
        """All of them, in order."""
        return (10**x if self.scale == "exp" else x for x in range(self.low, self.high + 1))

    def draw(self, generator: random.Random) -> int:
        """One of them, each as likely as the others (with `exp`, each exponent)."""
        x = generator.randint(self.low, self.high)
        return 10**x if self.scale == "exp" else x

    def document(self) -> dict[str, Any]:
        """As in the canonical JSON."""
        return _scaled(".int", [self.low, self.high], self.scale)


@dataclass(frozen=True, slots=True)
class Float:
    """Numbers between `low` and `high`: even with scale `linear`, even in their logarithms with `log`; with
    `exp`, 10 to the power of an even number."""

    low: float
    high: float
    scale: Literal["linear", "log", "exp"] = "linear"

    def __post_init__(self) -> None:
        _check_scale(self.scale, ("linear", "log", "exp"))
        for bound in (self.low, self.high):
            if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
                raise ValueError(f"bounds of .float must be finite numbers; got {bound!r}")
        _check_order(self.low, self.high)
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"a logarithmic scale starts above 0; got {self.low:g}")
        if self.scale == "exp" and max(abs(self.low), abs(self.high)) > 300:
            raise ValueError(f"exponents must be within ±300; got [{self.low:g}, {self.high:g}]")

    @property
    def size(self) -> float:
        """How many values there are: infinitely many, unless the bounds are equal."""
        return 1 if self.low == self.high else math.inf

    def values(self) -> Iterator[float]:
        """The only value; raises ValueError where there are infinitely many."""
        if self.size > 1:
            raise ValueError("an interval has no list of values")
        return iter([10.0**self.low if self.scale == "exp" else float(self.low)])

    def draw(self, generator: random.Random) -> float:
        """A number of the interval, by its scale."""
        if self.scale == "linear":
            return generator.uniform(self.low, self.high)
        if self.scale == "exp":
            return float(10.0 ** generator.uniform(self.low, self.high))
        drawn = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)  # the two roundings may leave the interval

    def document(self) -> dict[str, Any]:
        """As in the canonical JSON."""
        return _scaled(".float", [self.low, self.high], self.scale)


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One of some options: texts, numbers, booleans, None, or spaces (a dict of parameters then)."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        if not options:
            raise ValueError("a .choice needs at least one option")
        if len({_canonical(_document(option)) for option in options}) != len(options):
            raise ValueError("the options of a .choice must differ")
        object.__setattr__(self, "options", options)

    @property
    def size(self) -> float:
        """How many values there are."""
        return sum(option.size if isinstance(option, Space) else 1 for option in self.options)

    def values(self) -> Iterator[Any]:
        """All of them, in the order of the options."""
        for option in self.options:
            yield from option.values() if isinstance(option, Space) else [option]

    def draw(self, generator: random.Random) -> Any:
        """An option, each as likely as the others, and a point of it where it is a space."""
        option = generator.choice(self.options)
        return option.draw(generator) if isinstance(option, Space) else option

    def document(self) -> dict[str, Any]:
        """As in the canonical JSON."""
        return {".choice": [_document(option) for option in self.options]}


class Space:
    """What may be set, by name: domains, spaces and constants; immutable.

    Raises ValueError on a constant that JSON cannot keep.
    """

    def __init__(self, /, **parameters: Any) -> None:
        for name, value in parameters.items():
            if name.startswith("."):
                raise ValueError(f"{name} is no name of a parameter: a full stop begins the words of a space")
            _canonical(_document(value))
        self._parameters = parameters

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Space:
        """The space that a document in the JSON form describes; raises ValueError naming the parameter."""
        return cls(**{name: _parse(value, name) for name, value in document.items()})

    def document(self) -> dict[str, Any]:
        """As in the canonical JSON: `Space.parse(space.document()) == space`."""
        return {name: _document(value) for name, value in self._parameters.items()}

    def __str__(self) -> str:
        return _canonical(self.document())

    def __repr__(self) -> str:
        return f"Space.parse({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def size(self) -> float:
        """How many settings there are; infinite with any interval of floats. One for an empty space."""
        return math.prod(v.size for v in self._parameters.values() if isinstance(v, _DOMAINS))

    def values(self) -> Iterator[Setting]:
        """Every setting, the last parameter changing fastest; for spaces of finite size."""
        lists = [
            list(value.values()) if isinstance(value, _DOMAINS) else [value]
            for value in self._parameters.values()
        ]
        for values in itertools.product(*lists):
            yield dict(zip(self._parameters, values, strict=True))

    def draw(self, generator: random.Random) -> Setting:
        """One setting at random."""
        return {
            name: value.draw(generator) if isinstance(value, _DOMAINS) else value
            for name, value in self._parameters.items()
        }

    def settings(self, most: int, seed: int) -> list[Setting]:
        """What a trial tries: every setting where there are at most `most`, else `most` different ones drawn
        at random (Bergstra and Bengio 2012, Random search for hyper-parameter optimization).

        The same for the same seed. At least one, and at most `most`.
        """
        if self.size <= most:
            return list(self.values())
        generator = random.Random(seed)
        drawn: dict[str, Setting] = {}
        for _ in range(_ROUNDS * most):
            setting = self.draw(generator)
            drawn.setdefault(_canonical(setting), setting)
            if len(drawn) == most:
                break
        return list(drawn.values())


_DOMAINS = (Int, Float, Choice, Space)


def _parse(value: Any, path: str) -> Any:
    """A domain, a space or a constant from its document."""
    if not isinstance(value, Mapping):
        return value
    if not any(str(key).startswith(".") for key in value):
        return _space(value, path)
    kinds = {".int", ".float", ".choice"} & set(value)
    allowed = {".choice"} if ".choice" in kinds else kinds | {".scale"}
    if len(kinds) != 1 or set(value) - allowed:
        raise ValueError(f"{path}: one of .int, .float (each with .scale if need be) or .choice; got {value}")
    kind = kinds.pop()
    content = value[kind]
    try:
        if not isinstance(content, list | tuple):
            raise ValueError(f"{kind} takes a list; got {content!r}")
        if kind == ".choice":
            options = [_parse(option, f"{path}.choice[{i}]") for i, option in enumerate(content)]
            return Choice(*options)
        if len(content) != 2:
            raise ValueError(f"{kind} takes [low, high]; got {list(content)}")
        return (Int if kind == ".int" else Float)(*content, **_scale(value))
    except ValueError as error:
        told = str(error)
        raise ValueError(told if told.startswith(f"{path}.") else f"{path}: {told}") from error


def _space(document: Mapping[str, Any], path: str) -> Space:
    return Space(**{name: _parse(value, f"{path}.{name}") for name, value in document.items()})


def _scale(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"scale": value[".scale"]} if ".scale" in value else {}


def _document(value: Any) -> Any:
    return value.document() if isinstance(value, _DOMAINS) else value


def _canonical(document: Any) -> str:
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"a space holds what JSON can keep, and finite numbers; got {document!r}") from error


def _scaled(kind: str, bounds: list[Any], scale: str) -> dict[str, Any]:
    return {kind: bounds} | ({} if scale == "linear" else {".scale": scale})


def _check_scale(scale: str, allowed: tuple[str, ...]) -> None:
    if scale not in allowed:
        raise ValueError(f".scale must be one of {', '.join(allowed)}; got {scale!r}")


def _check_order(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"the lower bound comes first; got [{low:g}, {high:g}]")
