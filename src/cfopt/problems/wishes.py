"""Wishes that leave a plan open: through this street, without that item, at least two of these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.problems.conditions import Conditions
from cfopt.problems.decision_space import DecisionSpace
from cfopt.problems.foil import EntryName, Foil


@dataclass(frozen=True, init=False)
class _Chosen(Foil):
    """A wish about each of some entries."""

    entries: tuple[EntryName, ...]
    key: ClassVar[str]

    def __init__(self, *entries: EntryName) -> None:
        object.__setattr__(self, "entries", tuple(dict.fromkeys(_checked(self, entries))))

    def named(self, names: Sequence[str]) -> Self:
        return type(self)(*_named(self.entries, names))

    def to_dict(self) -> dict[str, Any]:
        return {self.key: list(self.entries)}


class Uses(_Chosen):
    """Decisions that take every one of some entries: `y_j >= 1`.

    Arguments:
        entries: their names or numbers.
    """

    key = "uses"

    def conditions(self, space: DecisionSpace) -> Conditions:
        groups = [_whole(self, space, space.columns_of(entry)) for entry in self.entries]
        return Conditions.sums(space.num_columns, groups, 1.0, np.inf)

    def said(self, routes: bool) -> str:
        return f"{'through' if routes else 'with'} {join_words(_called(self.entries))}"


class Avoids(_Chosen):
    """Decisions that take none of some entries: `y_j = 0`.

    Arguments:
        entries: their names or numbers.
    """

    key = "avoids"

    def conditions(self, space: DecisionSpace) -> Conditions:
        columns = {j for entry in self.entries for j in space.columns_of(entry, touching=True)}
        return Conditions.sums(space.num_columns, [(j,) for j in sorted(columns)], 0.0, 0.0)

    def said(self, routes: bool) -> str:
        return f"without {join_words(_called(self.entries), 'or')}"


@dataclass(frozen=True)
class _Counted(Foil):
    """A wish about how many of some entries are taken.

    Arguments:
        count: how many.
        entries: their names or numbers.
    """

    count: int
    entries: Sequence[EntryName]
    key: ClassVar[str]
    bound: ClassVar[str]

    def __post_init__(self) -> None:
        name, count = type(self).__name__, self.count
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
            raise InputError(
                f"{name} needs a whole number >= 0, then the entries, as in {name}(2, ['a', 'b', "
                f"'c']); got {count!r:.60}."
            )
        object.__setattr__(self, "count", int(count))
        object.__setattr__(self, "entries", _checked(self, self.entries))

    def named(self, names: Sequence[str]) -> Self:
        return type(self)(self.count, _named(self.entries, names))

    def _columns(self, space: DecisionSpace) -> tuple[int, ...]:
        groups = [_whole(self, space, space.columns_of(entry)) for entry in self.entries]
        columns = [j for group in groups for j in group]
        integer, (lower, upper) = space.integer_columns(), space.column_bounds()
        scene = space.cached_scene
        plain = all(integer[j] and lower[j] >= 0 and upper[j] <= 1 for j in columns)
        # Both edges of a place are taken where they have no direction: that is not one visit.
        plain &= getattr(scene, "directed", True) or all(len(group) == 1 for group in groups)
        if len(set(columns)) < len(columns) or not (plain or scene.kind == "cells"):
            raise InputError(
                f"{type(self).__name__} needs different entries that are 0 or 1, got "
                f"{join_words(_called(self.entries))}. Use Condition for others."
            )
        return tuple(columns)

    def said(self, routes: bool) -> str:
        among = f"{self.count} of {join_words(_called(self.entries))}"
        return f"{'through' if routes else 'with'} {self.bound} {among}"

    def to_dict(self) -> dict[str, Any]:
        return {self.key: [{"count": self.count, "of": list(self.entries)}]}


class AtLeast(_Counted):
    """Decisions that take at least a given number of some entries."""

    key = "at_least"
    bound = "at least"

    def conditions(self, space: DecisionSpace) -> Conditions:
        return Conditions.sums(space.num_columns, [self._columns(space)], self.count, np.inf)


class AtMost(_Counted):
    """Decisions that take at most a given number of some entries."""

    key = "at_most"
    bound = "at most"

    def conditions(self, space: DecisionSpace) -> Conditions:
        return Conditions.sums(space.num_columns, [self._columns(space)], -np.inf, self.count)


@dataclass(frozen=True)
class Condition(Foil):
    """Decisions that meet a linear condition: `lower <= sum_j coefficient_j y_j <= upper`.

    Arguments:
        coefficients: one for each entry that counts, by its name or number.
        lower, upper: the limits; the others are open.
    """

    coefficients: Mapping[EntryName, float]
    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        given = self.coefficients
        numbers = [*given.values()] if isinstance(given, Mapping) else [None]
        fine = all(_number(value) and math.isfinite(value) for value in numbers)
        ends = (self.lower, self.upper)
        open_ended = ends == (-math.inf, math.inf)
        if not fine or open_ended or not all(_number(end) and end == end for end in ends):
            raise InputError(
                "Condition needs finite coefficients by entry and a limit, as in Condition({'a': "
                f"2, 'b': 1}}, lower=1, upper=2); got {given!r:.80} within {ends}."
            )
        _checked(self, given)
        object.__setattr__(self, "coefficients", {k: float(v) for k, v in given.items()})
        for name, end in zip(("lower", "upper"), ends, strict=True):
            object.__setattr__(self, name, float(end))

    def conditions(self, space: DecisionSpace) -> Conditions:
        row = np.zeros((1, space.num_columns))
        for entry, value in self.coefficients.items():
            row[0, list(space.columns_of(entry))] += value
        return Conditions(row, np.array([self.lower]), np.array([self.upper]))

    def named(self, names: Sequence[str]) -> Condition:
        called = _named(self.coefficients, names)
        values = self.coefficients.values()
        return Condition(dict(zip(called, values, strict=True)), self.lower, self.upper)

    def said(self, routes: bool) -> str:
        terms = [
            name if value == 1 else f"{value:g} {name}"
            for name, value in zip(
                _called(self.coefficients), self.coefficients.values(), strict=True
            )
        ]
        total = " + ".join(terms).replace("+ -", "- ")
        if self.lower == self.upper:
            return f"with {total} = {self.lower:g}"
        if self.lower == -math.inf:
            return f"with {total} at most {self.upper:g}"
        if self.upper == math.inf:
            return f"with {total} at least {self.lower:g}"
        return f"with {total} from {self.lower:g} to {self.upper:g}"

    def to_dict(self) -> dict[str, Any]:
        ends = {"lower": self.lower, "upper": self.upper}
        given = {name: end for name, end in ends.items() if math.isfinite(end)}
        # As pairs: JSON and TOML have no numbers for keys.
        pairs = [[entry, value] for entry, value in self.coefficients.items()]
        return {"conditions": [{"coefficients": pairs, **given}]}


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _checked(foil: Foil, entries: Iterable[Any]) -> tuple[EntryName, ...]:
    given = tuple(entries) if not isinstance(entries, str) else (None,)
    known = all(
        isinstance(one, str) or (isinstance(one, Integral) and not isinstance(one, bool))
        for one in given
    )
    if not given or not known:
        raise InputError(
            f"{type(foil).__name__} needs entries of a decision, each by its name or number; got "
            f"{entries!r:.80}."
        )
    return tuple(one if isinstance(one, str) else int(one) for one in given)


def _whole(foil: Foil, space: DecisionSpace, columns: tuple[int, ...]) -> tuple[int, ...]:
    """Columns that are taken or not; InputError if they may take fractions."""
    integer, lower = space.integer_columns(), space.column_bounds()[0]
    if not all(integer[j] and lower[j] >= 0 for j in columns):
        name = space.cached_scene.names[columns[0]]
        raise InputError(
            f"{type(foil).__name__} needs entries that are whole numbers >= 0, which {name!r} is "
            f"not known to be. Use Condition({{{name!r}: 1}}, lower=...)."
        )
    return columns


def _named(entries: Iterable[EntryName], names: Sequence[str]) -> list[EntryName]:
    return [entry if isinstance(entry, str) else names[entry] for entry in entries]


def _called(entries: Iterable[EntryName]) -> list[str]:
    return [entry if isinstance(entry, str) else f"entry {entry}" for entry in entries]
