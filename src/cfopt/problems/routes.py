"""Scenes of routes: networks of places and arcs, and maps whose cells are crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.arcs import walk
from cfopt.problems.land import Land
from cfopt.problems.lattice import LETTERS, order_cells
from cfopt.problems.layout import bends, layered, scaled
from cfopt.problems.scene import _SPELLED, Path, Place, Scene, hints

#: How far a value may be from a whole number to count as one.
_WHOLE = 1e-4
#: How many routes are kept with their stops.
_KNOWN = 4096
#: Among more places a network shows no names and arrows.
_MANY = 60
#: How many orders of visited cells are remembered: pages and reports ask for each many times.
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class Routes(Scene):
    """Places, and decisions that lead from one of them to another.

    Arguments:
        places: what the places are called, all different.
        start, goal: the numbers of the first and the last place of every route; None where
            decisions are not routes, but sets of arcs.
        lattice: the rows and columns in which places lie, row by row; None where they do not.
    """

    has_places: ClassVar[bool] = True
    noun: str = "route"
    nouns: str = "routes"
    places: tuple[str, ...]
    start: int | None = None
    goal: int | None = None
    lattice: tuple[int, int] | None = None

    @property
    def routes(self) -> bool:
        return self.start is not None

    @property
    def named_by_places(self) -> bool:
        return self.lattice is not None

    @property
    def has_rulers(self) -> bool:
        """Whether places are named along the edges, as they are too many to be named each."""
        return self.lattice is not None and len(self.places) > LETTERS

    def place(self, number: int) -> Place:
        """How a path names a place: by row and column on a lattice, else by its name."""
        if self.lattice is None:
            return self.places[number]
        row, column = divmod(number, self.lattice[1])
        return row, column

    def _number(self, place: Any) -> int:
        """The number of a place that a path names."""
        if self.lattice is None or isinstance(place, str):
            if place not in self._numbers:
                raise InputError(f"The path needs places of the network; there is no {place!r}.")
            return self._numbers[place]
        rows, cols = self.lattice
        row, column = place
        if not (0 <= row < rows and 0 <= column < cols):
            raise InputError(
                f"The path leaves the map at {list(place)}: there are {rows} rows and {cols} "
                "columns, from 0 on."
            )
        return int(row * cols + column)

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: k for k, name in enumerate(self.places)}

    def _shown(self, number: int) -> str:
        place = self.place(number)
        return place if isinstance(place, str) else str(list(place))

    def _check_ends(self, numbers: Sequence[int]) -> None:
        for what, end, wanted in (("start", 0, self.start), ("end", -1, self.goal)):
            if wanted is not None and numbers[end] != wanted:
                raise InputError(
                    f"The path needs to {what} at {self._shown(wanted)}, got "
                    f"{self._shown(numbers[end])}."
                )

    def stops(self, decision: Array) -> list[str] | None:
        """The names of the places that a route visits; None if it is not a simple route."""
        # A report names the same few routes again and again.
        key = decision.tobytes()
        if key not in self._known_stops:
            if len(self._known_stops) >= _KNOWN:
                self._known_stops.clear()
            self._known_stops[key] = self._stops(decision)
        return self._known_stops[key]

    @cached_property
    def _known_stops(self) -> dict[bytes, list[str] | None]:
        return {}

    def _stops(self, decision: Array) -> list[str] | None:
        path = self.path_of(decision)
        if path is None:
            return None
        return [stop if isinstance(stop, str) else self.places[self._number(stop)] for stop in path]

    def _named(self, decision: Array, beside: Array | None) -> str:
        if not self.routes:
            return super()._named(decision, beside)
        walk = self.stops(decision)
        if walk is None:
            return f"the given visits, which are not a simple {self.noun}"
        if len(walk) <= _SPELLED:
            return "-".join(walk)
        bends = self._bends(decision)
        if len(bends) in range(1, _SPELLED + 1):
            return f"the {self.noun} {'-'.join(bends)}"
        others = set((None if beside is None else self.stops(beside)) or ())
        own = [stop for stop in walk if stop not in others]
        return f"the {self.noun} by {hints(own or walk[1:-1])}"

    def _bends(self, decision: Array) -> list[str]:
        """The places between which a route on a lattice is straight, its ends among them."""
        path = self.path_of(decision)
        # A road by its own name, where there are two, does not lie on the lattice.
        if self.lattice is None or path is None or any(isinstance(stop, str) for stop in path):
            return []
        numbers = [self._number(stop) for stop in path]
        at = np.column_stack(np.divmod(numbers, self.lattice[1]))
        turns = (np.diff(at, n=2, axis=0) != 0).any(1)
        return [self.places[k] for k in np.array(numbers)[np.r_[True, turns, True]]]


@dataclass(frozen=True, kw_only=True)
class Network(Routes):
    """Places joined by arcs; a decision says which arcs are taken.

    Arguments:
        arcs: the numbers of the places that each entry of a decision joins.
        positions: x and y of each place, y downwards, in any unit; they are moved and scaled so
            that an arc is about 1 long. Without them places lie on their lattice, or in columns
            by how far they are from the start.
        directed: whether arcs go from the first place to the second only.
    """

    kind: ClassVar[str] = "network"
    arcs: tuple[tuple[int, int], ...]
    positions: tuple[tuple[float, float], ...] = ()
    directed: bool = True

    def __post_init__(self) -> None:
        count = len(self.places)
        if self.positions:
            at = np.array(self.positions, dtype=np.float64).reshape(-1, 2)
        elif self.lattice is not None:
            at = np.column_stack(np.divmod(np.arange(count), self.lattice[1])[::-1]).astype(float)
        else:
            at = layered(count, self.arcs, self.start or 0)
        placed = scaled(at, self.arcs)
        object.__setattr__(self, "positions", tuple((x, y) for x, y in placed.tolist()))

    @cached_property
    def bends(self) -> tuple[float, ...]:
        """How far the middle of each arc lies to the right of the straight way, seen along it."""
        return bends(self.arcs)

    @property
    def crowded(self) -> bool:
        """Whether there are too many places for names and arrows."""
        return len(self.places) > _MANY

    @property
    def has_broad_arcs(self) -> bool:
        """Whether arcs can be drawn broad: on a lattice they neither cross nor run side by side."""
        return self.lattice is not None and not any(self.bends)

    @property
    def arrows(self) -> bool:
        """Whether directions are drawn: not if all arcs go right or down, as one reads."""
        if not self.directed or not self.arcs or self.crowded:
            return False
        at = np.array(self.positions)
        ends = np.array(self.arcs)
        return bool((at[ends[:, 1]] - at[ends[:, 0]] < -1e-6).any())

    def to_dict(self) -> dict[str, Any]:
        """With what renderers would otherwise have to find out again."""
        look = ("bends", "arrows", "has_broad_arcs", "crowded")
        return super().to_dict() | {name: getattr(self, name) for name in look}

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[int]]:
        """The arcs that lead from one place to another."""
        found: dict[tuple[int, int], list[int]] = {}
        for k, (source, target) in enumerate(self.arcs):
            found.setdefault((source, target), []).append(k)
            if not self.directed and source != target:
                found.setdefault((target, source), []).append(k)
        return found

    def columns_at(self, place: str, touching: bool) -> tuple[int, ...]:
        number = self._numbers.get(place)
        if number is None:
            return ()
        ends = np.array(self.arcs, dtype=np.intp).reshape(-1, 2)
        loop = ends[:, 0] == ends[:, 1]
        if touching or not self.directed:
            return tuple(np.flatnonzero((ends == number).any(axis=1) & ~loop).tolist())
        # A route enters each of its places once, but for the first, which it leaves.
        side = ends[:, 0 if number == self.start else 1]
        return tuple(np.flatnonzero((side == number) & ~loop).tolist())

    def path_of(self, decision: Array) -> Path | None:
        """The places of a route in order; of arcs side by side the name of the one taken, too."""
        if not self.routes or np.abs(decision - decision.round()).max(initial=0.0) > _WHOLE:
            return None
        chosen = np.flatnonzero(np.abs(decision) > 0.5)
        if (decision[chosen].round() != 1).any():
            return None
        assert self.start is not None
        assert self.goal is not None
        way = walk(self.arcs, chosen.tolist(), self.start, self.goal, self.directed)
        if not way.is_path:
            return None
        path: Path = [self.place(self.start)]
        for arc, move in zip(way.taken, pairwise(way.nodes), strict=True):
            if len(self._between[move]) > 1:
                path.append(self.names[arc])
            path.append(self.place(move[1]))
        return path

    def decision_of(self, path: Sequence[Place | Sequence[int]]) -> Array:
        """The arcs along these places; an arc named between two places is the one taken there."""
        taken = np.zeros(len(self.entries))
        numbers: list[int] = []
        named: dict[int, int] = {}
        for stop in path:
            if isinstance(stop, str) and stop not in self._numbers and stop in self.names:
                named[len(numbers)] = self.names.index(stop)
            else:
                numbers.append(self._number(stop))
        for k, move in enumerate(pairwise(numbers), start=1):
            ways = self._between.get(move, [])
            way = named.get(k, ways[0] if ways else None)
            if way not in ways:
                here, there = map(self._shown, move)
                raise InputError(
                    f"The path breaks off: there is no arc from {here} to {there}. Pass "
                    "neighbouring places from start to goal."
                )
            taken[way] += 1
        self._check_ends(numbers)
        return taken


@dataclass(frozen=True, kw_only=True)
class Cells(Routes):
    """The cells of a map, row by row; a decision says how often each is visited.

    Arguments:
        neighbours: the number of cells to which one can move: 8 (with diagonals) or 4.
        land: the kinds of land, each with its colour; empty where they are not known.
    """

    kind: ClassVar[str] = "cells"
    neighbours: int = 8
    land: Land = ()

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of the map."""
        assert self.lattice is not None
        return self.lattice

    @cached_property
    def _orders(self) -> dict[bytes, Path | None]:
        return {}

    def path_of(self, decision: Array) -> Path | None:
        """The visited cells in order from start to goal; None if they form no simple path."""
        key = np.ascontiguousarray(decision, dtype=np.float64).tobytes()
        if key not in self._orders:
            if len(self._orders) >= _REMEMBERED:
                self._orders.clear()
            self._orders[key] = self._ordered(decision)
        return self._orders[key]

    def _ordered(self, decision: Array) -> Path | None:
        visits = decision.reshape(self.size)
        if not np.isclose(visits, visits.round(), atol=_WHOLE).all() or visits.max() > 1.5:
            return None
        cells = {(int(i), int(j)) for i, j in np.argwhere(visits > 0.5)}
        assert self.start is not None
        assert self.goal is not None
        start, goal = (divmod(end, self.size[1]) for end in (self.start, self.goal))
        walk = order_cells(cells, start, goal, self.neighbours)
        return None if walk is None else list(walk)

    def decision_of(self, path: Sequence[Place | Sequence[int]]) -> Array:
        numbers = [self._number(place) for place in path]
        visits = np.zeros(len(self.entries))
        # Visits alone have no order: cells that come later could make up for a jump.
        for here, there in pairwise(numbers):
            (i, j), (k, m) = (divmod(number, self.size[1]) for number in (here, there))
            down, right = abs(i - k), abs(j - m)
            if (max(down, right) if self.neighbours == 8 else down + right) != 1:
                raise InputError(
                    f"The path breaks off: from cell {self._shown(here)} to {self._shown(there)} "
                    "is not a single move. Pass neighbouring cells from start to goal."
                )
        self._check_ends(numbers)
        np.add.at(visits, numbers, 1.0)
        return visits
