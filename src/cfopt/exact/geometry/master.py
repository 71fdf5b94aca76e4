"""The cheapest change that meets all cuts so far, by branch and bound where it must."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.branching import Branching
from cfopt.exact.geometry.by_case import ByCase
from cfopt.exact.geometry.half_spaces import HalfSpaces
from cfopt.exact.geometry.nearest import Nearest, relax
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.system import System
from cfopt.exact.geometry.tree import Grid


class Master:
    """`min norm(u)` over a system that grows by cuts.

    Arguments:
        system: the limits on u.
        norm: what to minimise.
        grid: a flag for each entry that is a whole number, if any.
        deadline: when to give up branching.
        why: whether someone asks why there is no solution, where there is none.
    """

    def __init__(
        self,
        system: System,
        norm: Norm,
        grid: Grid | None = None,
        deadline: float = np.inf,
        why: bool = True,
    ) -> None:
        self.system = system
        self.norm = norm
        self.grid = grid if grid is not None and grid.integer.any() else None
        self._deadline, self._why = deadline, why
        self._listed = ByCase.serves(system, norm, self.grid)  # also when it has grown
        self._by_case: ByCase | None = None
        self._branching: Branching | None = None
        self._last: Array | None = None  # the last change that was handed out
        self._meets = False  # whether it meets all cuts

    def branch(self) -> Self:
        """A copy that can grow by cuts of its own."""
        twin = copy(self)
        twin._by_case = None
        twin._branching = None if self._branching is None else self._branching.copy()
        return twin

    def add(self, cuts: HalfSpaces) -> None:
        """Add cuts."""
        self.system = self.system.with_cuts(cuts)
        self._meets = False

    def solve(self) -> Nearest:
        """The cheapest change, the bound that proves it, or a proof that there is none."""
        if self.grid is None and self.system.support is None:
            return relax(self.system, self.norm, self._why)
        if self._listed:
            self._by_case = self._by_case or ByCase(self.system)
            found = self._by_case.solve(self.system)
            if found is not None:
                self._last, self._meets = found.u, True
                return found
        if self._branching is None:
            self._branching = Branching(self.system, self.norm, self.grid)
        self._branching.grow(self.system, self._last if self._meets else None)
        nearest = self._branching.run(self._deadline)
        self._last, self._meets = nearest.u, True
        return nearest

    def hurry(self) -> Array | None:
        """A change that meets all cuts, by the units alone that changed in the last one.

        It may cost more than need be; None where that does not help, or there is none. Before there
        is a solution, it is the cheapest, however many units change.
        """
        support = self.system.support
        if support is None or self._listed:
            return None
        if self._last is None:
            return relax(self.system, self.norm).u
        still = np.flatnonzero(support.open & (support.sizes(self._last) == 0))
        u = self.holding(still.tolist())
        if u is not None:
            self._last, self._meets = u, True
        return u

    def holding(self, units: Sequence[int]) -> Array | None:
        """The cheapest change that leaves some open units as they are; None if it is not whole.

        The others must be few enough to change together.
        """
        u = relax(self.system.holding(units), self.norm).u
        if u is None or (self.grid is not None and self.grid.fractional(u) is not None):
            return None
        return u
