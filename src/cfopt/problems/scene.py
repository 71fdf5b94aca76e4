"""What decisions look like, as plain data: each problem says it once, and every renderer draws it.

A scene knows what the entries of a decision are called and which values they may take, how a
decision is said in words, and what it is drawn as: bars and items here, networks and maps in
`routes.py`. It needs no drawing library, and travels as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.names import join_words

#: A place of a route: row and column on a map or grid, else its name.
Place: TypeAlias = tuple[int, int] | str
Path: TypeAlias = list[Place]

#: Up to this many parts a decision is spelled out; so many hints stand for a longer one.
SPELLED, _HINTS = 12, 4
#: An entry below this is 0; one that misses 1 by less than the other is 1, as solvers answer.
_ZERO, _ONE = 1e-9, 1e-6


@dataclass(frozen=True)
class Entry:
    """One entry of a decision.

    Arguments:
        name: what it is called.
        lower, upper: the least and the greatest value it may take.
        integer: whether it takes whole values only.
    """

    name: str
    lower: float = -math.inf
    upper: float = math.inf
    integer: bool = False

    @property
    def binary(self) -> bool:
        """Whether it is 0 or 1."""
        return self.integer and self.lower >= 0 and self.upper <= 1


def entries(
    names: Iterable[str], lower: Array, upper: Array, integer: Sequence[bool] | Any
) -> tuple[Entry, ...]:
    """Entries from their names, bounds and integrality, each `(m,)`."""
    whole = np.asarray(integer, dtype=bool).tolist()
    columns = zip(names, lower.tolist(), upper.tolist(), whole, strict=True)
    return tuple(Entry(str(name), *rest) for name, *rest in columns)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What all kinds of scenes share.

    Arguments:
        entries: the entries of a decision, in their order.
        noun, nouns: what a decision is called, and several of them.
        nothing: what a decision is called whose entries are all 0.
    """

    kind: ClassVar[str]
    #: Whether decisions are drawn over places with costs in shades, and not as bars.
    has_places: ClassVar[bool] = False
    entries: tuple[Entry, ...]
    noun: str = "decision"
    nouns: str = "decisions"
    nothing: str = "nothing"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the entries of a decision are called."""
        return tuple(entry.name for entry in self.entries)

    @property
    def routes(self) -> bool:
        """Whether a decision is a way from one place to another."""
        return False

    @property
    def named_by_places(self) -> bool:
        """Whether entries are called after places, so that they can have no names of their own."""
        return False

    def path_of(self, decision: Array) -> Path | None:
        """The places that a decision visits, in order; None if it is not a route: `(m,)`."""
        return None

    def decision_of(self, path: Sequence[Place | Sequence[int]]) -> Array:
        """The decision that visits these places in this order: `-> (m,)`."""
        raise InputError(
            f"A path is for routes; a {self.noun} is a list of {len(self.entries)} numbers here."
        )

    def columns_at(self, place: str, touching: bool) -> tuple[int, ...]:
        """The entries that lead to a place, which is visited if one of them is taken; () if none.

        Arguments:
            touching: whether all entries that begin or end there are meant.
        """
        return ()

    def note(self, decision: Array) -> str:
        """What else is worth knowing of a decision, as the end of a sentence; "" for nothing."""
        return ""

    def name_of(self, decision: Array, beside: Array | None = None) -> str:
        """A decision in a few words, to stand in a sentence: `(m,) -> str`.

        Short ones are spelled out, long ones named by what they have and the one beside has not.
        """
        if not np.isfinite(decision).all():
            return "an unknown decision"
        known = beside is not None and bool(np.isfinite(beside).all())
        return self._named(decision, beside if known else None)

    def _named(self, decision: Array, beside: Array | None) -> str:
        taken = np.flatnonzero(np.abs(decision) > _ZERO)
        if not len(taken):
            return self.nothing
        if len(taken) > SPELLED and beside is not None:
            own = taken[np.abs(decision - beside)[taken] > _ZERO]
            if len(own):
                return f"{self._listed(decision, own.tolist(), short=True)} among {len(taken)}"
        return self._listed(decision, taken.tolist(), short=len(taken) > SPELLED)

    def _listed(self, decision: Array, columns: list[int], short: bool) -> str:
        parts = [
            self.names[j]
            if abs(decision[j] - 1) <= _ONE
            else f"{self.names[j]} = {decision[j]:.4g}"
            for j in columns
        ]
        return hints(parts) if short else join_words(parts)

    def to_dict(self) -> dict[str, Any]:
        """The scene as JSON takes it; None stands for a bound that is not there."""
        content = {**asdict(self), "kind": self.kind}
        for entry in content["entries"]:
            for end in ("lower", "upper"):
                entry[end] = entry[end] if math.isfinite(entry[end]) else None
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The scene that `to_dict` wrote; called on its class, or on `Scene` for any kind."""
        if cls.__dict__.get("kind") is None:
            kinds = {kind.kind: kind for kind in _leaves(cls)}
            found: Self = kinds[content["kind"]].from_dict(content)
            return found
        names = [field.name for field in fields(cls) if field.name in content]
        given = {name: _frozen(content[name]) for name in names}
        given["entries"] = tuple(
            Entry(
                one["name"],
                -math.inf if one["lower"] is None else one["lower"],
                math.inf if one["upper"] is None else one["upper"],
                one["integer"],
            )
            for one in content["entries"]
        )
        return cls(**given)


def _leaves(kind: type[Any]) -> list[Any]:
    """All kinds of scenes that can be built."""
    below = [leaf for child in kind.__subclasses__() for leaf in _leaves(child)]
    return below + ([kind] if kind.__dict__.get("kind") else [])


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, kw_only=True)
class Bars(Scene):
    """Any decision: a bar for each entry in which two of them differ, as long as its value."""

    kind: ClassVar[str] = "bars"

    @classmethod
    def unnamed(cls, count: int) -> Bars:
        """The scene of a problem of which only the number of entries is known."""
        return cls(entries=tuple(Entry(f"y{j}") for j in range(count)))


@dataclass(frozen=True, kw_only=True)
class Items(Scene):
    """A choice among items, each taken or not: a bar for each, as long as its price.

    Arguments:
        unit: what a nameless item is called before its number: "item"; "" where items have names.
        weights: what each takes of each resource, `(resources, items)`; () without limits.
        capacities: what there is of each resource.
    """

    kind: ClassVar[str] = "items"
    nothing: str = "no item"
    unit: str = ""
    weights: tuple[tuple[float, ...], ...] = ()
    capacities: tuple[float, ...] = ()

    def note(self, decision: Array) -> str:
        """How much of each resource is used: "takes 80% and 95% of the capacities"."""
        if not self.capacities:
            return ""
        used = np.array(self.weights) @ (decision > 0.5)
        room = [capacity or 1.0 for capacity in self.capacities]
        which = "the capacity" if len(room) == 1 else "the capacities"
        return f"takes {join_words([f'{fraction:.0%}' for fraction in used / room])} of {which}"

    def _listed(self, decision: Array, columns: list[int], short: bool) -> str:
        if not self.unit:
            return super()._listed(decision, columns, short)
        numbers = list(map(str, columns))
        units = self.unit if len(numbers) == 1 else f"{self.unit}s"
        return f"{units} {hints(numbers) if short else join_words(numbers)}"


def hints(parts: Sequence[str]) -> str:
    """The first few parts, and how many more there are."""
    more = len(parts) - _HINTS
    return join_words([*parts[:_HINTS], *([f"{more} more"] if more > 0 else [])])
