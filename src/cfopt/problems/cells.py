"""The scene of a map: cells that routes cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.land import Land
from cfopt.problems.lattice import order_cells
from cfopt.problems.routes import WHOLE, Routes
from cfopt.problems.scene import Path, Place

#: How many orders of visited cells are remembered: pages and reports ask for each many times.
_REMEMBERED = 4096


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
        if not np.isclose(visits, visits.round(), atol=WHOLE).all() or visits.max() > 1.5:
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
