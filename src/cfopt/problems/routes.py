"""Scenes of routes: places, and decisions that lead from one of them to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.lattice import LETTERS
from cfopt.problems.scene import SPELLED, Place, Scene, hints

#: How far a value may be from a whole number to count as one.
WHOLE = 1e-4
#: How many routes are kept with their stops.
_KNOWN = 4096


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
        if len(walk) <= SPELLED:
            return "-".join(walk)
        bends = self._bends(decision)
        if len(bends) in range(1, SPELLED + 1):
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
