"""Splits by categories as comparisons of numbers, so that all trees compare in one way.

A node that asks whether a category is one of several becomes a few nodes, each of which compares a
number with a threshold; what follows it is repeated where several of them lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from cfopt.errors import InputError

#: More nodes than these are not made of one tree.
_MOST_NODES = 200_000


@dataclass(frozen=True)
class Comparison:
    """A question of a number, and what follows: another one, or whether the category is in the set.

    Arguments:
        feature, threshold: `x[feature] <= threshold` goes low.
        missing_low: whether NaN goes low.
        low, high: what follows.
    """

    feature: int
    threshold: float
    missing_low: bool
    low: Outcome
    high: Outcome


Outcome: TypeAlias = Comparison | bool


class Reading(Protocol):
    """How a model reads categories from the features of a context."""

    def size(self, columns: int) -> int:
        """The number of features that this many columns make."""

    def feature(self, f: int) -> int:
        """The feature that a column of numbers is."""

    def asks(self, f: int, values: Sequence[int], missing: bool) -> Outcome:
        """Whether column f has one of some categories; `missing` is what counts for NaN."""


class Codes:
    """Categories that are numbers in the contexts themselves.

    Arguments:
        interval: the numbers that are category c of column f: those above the first and up to the
            second.
        known: the categories of each column, if all other numbers count as missing.
    """

    def __init__(
        self,
        interval: Callable[[int, int], tuple[float, float]],
        known: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self._interval, self._known = interval, known

    def size(self, columns: int) -> int:
        """Columns are features."""
        return columns

    def feature(self, f: int) -> int:
        """Columns are features."""
        return f

    def asks(self, f: int, values: Sequence[int], missing: bool) -> Outcome:
        """Comparisons with the ends of the intervals, by halves."""
        if self._known is not None and missing:
            others = set(self._known[f]) - set(values)
            return opposite(Codes(self._interval).asks(f, list(others), not missing))
        edges: list[float] = []
        for value in sorted(values, key=lambda c: self._interval(f, c)):
            below, up_to = self._interval(f, value)
            if edges and edges[-1] == below:
                edges[-1] = up_to
            else:
                edges += [below, up_to]
        return _halved(f, edges, missing, first=0)


def _halved(f: int, edges: list[float], missing: bool, first: int) -> Outcome:
    """Which piece between edges a number is in; every second one, counted from 0, is outside."""
    if not edges:
        return first % 2 == 1
    middle = len(edges) // 2
    low = _halved(f, edges[:middle], missing, first)
    high = _halved(f, edges[middle + 1 :], missing, first + middle + 1)
    return Comparison(f, edges[middle], _leads_to(low, missing), low, high)


def opposite(outcome: Outcome) -> Outcome:
    """The same with yes for no."""
    if isinstance(outcome, bool):
        return not outcome
    return replace(outcome, low=opposite(outcome.low), high=opposite(outcome.high))


def _leads_to(outcome: Outcome, wanted: bool) -> bool:
    if isinstance(outcome, bool):
        return outcome is wanted
    return _leads_to(outcome.low, wanted) or _leads_to(outcome.high, wanted)


class OneHot:
    """Categories that have a 0 or 1 for each of their values in contexts.

    Arguments:
        places: the features of each column, more than one for a category.
    """

    def __init__(self, places: Sequence[Sequence[int]]) -> None:
        self._places = places

    def size(self, columns: int) -> int:
        """Those of all columns."""
        return sum(map(len, self._places))

    def feature(self, f: int) -> int:
        """The feature of a column."""
        return self._places[f][0]

    def asks(self, f: int, values: Sequence[int], missing: bool) -> Outcome:
        """One value after the other, of the set or of the others, whichever are fewer."""
        members = self._places[f]
        inside = {value for value in values if value < len(members)}
        outside = set(range(len(members))) - inside
        rest = len(inside) > len(outside)  # of values that none of them is
        found: Outcome = rest
        for value in sorted(outside if rest else inside, reverse=True):
            found = Comparison(members[value], 0.5, missing_low=True, low=found, high=not rest)
        return found


def with_comparisons(tree: dict[str, Any], asks: dict[int, Outcome]) -> dict[str, Any]:
    """A tree whose splits by categories are comparisons.

    Arguments:
        tree: arrays of its nodes and the values of its leaves, both numbered from 0.
        asks: for nodes that split by categories, what leads to the left.
    """
    nodes: dict[str, list[Any]] = {name: [] for name in tree if name != "values"}
    leaves: list[int] = []
    waiting: list[tuple[int | Comparison, int, str, int]] = [(0, -1, "", -1)]
    while waiting:  # what is to be made, of which node it is part, and where it hangs
        what, owner, side, parent = waiting.pop()
        number = len(nodes["feature"])
        if number >= _MOST_NODES:
            raise InputError(
                f"A tree that splits by categories would have more than {_MOST_NODES} nodes as "
                "comparisons of numbers. Merge rare categories, or train shallower trees."
            )
        if parent >= 0:
            nodes[side][parent] = number
        while isinstance(what, int) and what in asks:
            owner, then = what, asks[what]
            # A set without known categories, or with all of them, asks nothing.
            what = then if isinstance(then, Comparison) else _side(tree, owner, then)
        if isinstance(what, Comparison):
            _append(nodes, what.feature, what.threshold, what.missing_low)
            for name, then in (("left", what.low), ("right", what.high)):
                following = then if isinstance(then, Comparison) else _side(tree, owner, then)
                waiting.append((following, owner, name, number))
            continue
        given = tree["feature"][what], tree["threshold"][what], tree["missing_left"][what]
        _append(nodes, *given)
        if given[0] < 0:
            nodes["left"][-1] = len(leaves)
            leaves.append(int(tree["left"][what]))
            continue
        waiting += [(int(tree[name][what]), -1, name, number) for name in ("right", "left")]
    arrays = {name: np.array(entries) for name, entries in nodes.items()}
    return arrays | {"values": tree["values"][leaves]}


def _side(tree: dict[str, Any], node: int, left: bool) -> int:
    return int(tree["left" if left else "right"][node])


def _append(nodes: dict[str, list[Any]], feature: int, threshold: float, missing: bool) -> None:
    for name, entry in (
        ("feature", feature),
        ("threshold", threshold),
        ("missing_left", missing),
        ("left", -1),
        ("right", -1),
    ):
        nodes[name].append(entry)
