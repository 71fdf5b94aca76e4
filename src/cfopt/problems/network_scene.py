"""The scene of a network: places joined by arcs."""

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
from cfopt.problems.layout import bends, layered, scaled
from cfopt.problems.routes import WHOLE, Routes
from cfopt.problems.scene import Path, Place

#: Among more places a network shows no names and arrows.
_MANY = 60


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
        if not self.routes or np.abs(decision - decision.round()).max(initial=0.0) > WHOLE:
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
