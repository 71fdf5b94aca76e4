"""Branch and bound over whole numbers and over which features may change, cut by cut."""

from __future__ import annotations

import heapq
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.exact.geometry.nearest import Nearest, relax
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.system import System
from cfopt.exact.geometry.tree import Choice, Grid, Leaf, Split, Tree

#: How many branches are looked at, and how many of them within each other.
_MOST_NODES, _DEEPEST = 5000, 300
#: Shares of multipliers that are tried for a better bound.
_SHARES = (1.0, 0.5)
#: By what fraction of the cost the answer may be above the bound.
_GAP = 1e-9


@dataclass
class _Node:
    """A part of the system: its cheapest change whatever is whole or counted, and its bound."""

    system: System
    nearest: Nearest
    depth: int
    #: Whether another bound was tried before dividing it.
    sharpened: bool = False
    #: Once it is divided: how, and the numbers of its parts.
    division: _Division | None = None

    @property
    def multipliers(self) -> Array:
        """Those that prove its bound."""
        assert isinstance(self.nearest.tree, Leaf)
        return self.nearest.tree.multipliers


@dataclass(frozen=True)
class _Division:
    """A whole-numbered feature and where it is split, or a unit and None; and the parts."""

    which: int
    at: int | None
    parts: tuple[int, ...]


class Branching:
    """Best first: the open part of the least bound is divided, until nothing cheaper is open.

    The system may grow by cuts. What was proved of a part stays true then, so that its cheapest
    change is computed anew only when its turn comes, and only if a new cut excludes it.

    Arguments:
        system: the limits on u.
        norm: what to minimise.
        grid: which entries are whole numbers, if any.
    """

    def __init__(self, system: System, norm: Norm, grid: Grid | None) -> None:
        self.system, self.norm, self.grid = system, norm, grid
        self.nodes: list[_Node] = []
        self.heap: list[tuple[float, int]] = []
        self.best: Array | None = None
        self.cost = np.inf
        self._few: dict[bytes, Nearest] = {}
        self._open(system, relax(system, norm), 0)

    def copy(self) -> Self:
        """The same, to grow by other cuts."""
        twin = copy(self)
        twin.nodes, twin.heap = [replace(node) for node in self.nodes], self.heap.copy()
        twin._few = self._few.copy()
        return twin

    def grow(self, system: System, start: Array | None) -> None:
        """Take a system with more cuts, and a change that meets all of them, if one is known."""
        if len(system.matrix) > len(self.system.matrix):
            self._few = {}
        self.system = system
        self.best, self.cost = None, np.inf
        if start is not None:
            self._improve(start)

    def run(self, deadline: float) -> Nearest:
        """Divide until the best change so far is proved, or a limit is reached."""
        most = len(self.nodes) + _MOST_NODES
        while self.heap:
            bound, name = self.heap[0]
            node = self.nodes[name]
            if bound >= (1 - _GAP) * self.cost or bound == np.inf:
                break  # only proved clashes or costlier parts are left
            if len(node.system.matrix) < len(self.system.matrix):
                self._refresh(node)
                heapq.heapreplace(self.heap, (node.nearest.bound, name))
                continue
            u = node.nearest.u
            deep = node.depth >= _DEEPEST or len(self.nodes) > most
            if u is None or deep or is_over(deadline):
                break  # not solved, or whole numbers without bounds, which may go on for ever
            unit = None if node.system.support is None else node.system.support.offending(u)
            fraction = None if self.grid is None else self.grid.fractional(u)
            if unit is None and fraction is None:
                self._improve(u if node.system.support is None else node.system.support.snapped(u))
                break  # parts come in the order of their bounds: nothing cheaper is left
            heapq.heappop(self.heap)
            if unit is None:
                assert fraction is not None
                self._split(node, *fraction)
            elif node.sharpened:
                self._choose(node, unit)
            else:
                self._sharpen(node, u)
                heapq.heappush(self.heap, (node.nearest.bound, name))
        least = min(self.heap[0][0] if self.heap else np.inf, self.cost)
        return Nearest(self.best, least, self._assemble(0))

    def _refresh(self, node: _Node) -> None:
        """Let a part have all cuts."""
        known, last = len(node.system.matrix), node.nearest
        node.system = replace(node.system, matrix=self.system.matrix, rows=self.system.rows)
        before = Leaf(self._padded(node.multipliers))
        if last.u is None or not self._meets(last.u, known):
            found = relax(node.system, self.norm)
            if found.bound >= last.bound:
                node.nearest, node.sharpened = found, False
                return
            last = replace(found, bound=last.bound)
        node.nearest = replace(last, tree=before)

    def _meets(self, u: Array, known: int) -> bool:
        """Whether a change keeps to the cuts after the first `known`."""
        rows = self.system.rows[:, known:]
        return bool((self.system.matrix[known:] @ u <= rows[1] - rows[2]).all())

    def _padded(self, multipliers: Array) -> Array:
        """Multipliers of all rows: 0 for those that came later."""
        missing = len(self.system.matrix) - len(multipliers)
        return np.concatenate([multipliers, np.zeros(missing)]) if missing else multipliers

    def _open(self, system: System, nearest: Nearest, depth: int) -> int:
        name = len(self.nodes)
        self.nodes.append(_Node(system, nearest, depth))
        heapq.heappush(self.heap, (nearest.bound, name))
        return name

    def _improve(self, u: Array) -> None:
        if (cost := self.norm(u)) < self.cost:
            self.best, self.cost = u, cost

    def _split(self, node: _Node, feature: int, value: float) -> None:
        """Divide a node beside a feature's value, which is not whole."""
        assert self.grid is not None
        at = int(np.floor(value))
        below, above = self.grid.divide(node.system, feature, at)
        parts = [self._open(p, relax(p, self.norm), node.depth + 1) for p in (below, above)]
        node.division = _Division(feature, at, tuple(parts))

    def _choose(self, node: _Node, unit: int) -> None:
        """Divide a node by whether a unit may change."""
        held, released = node.system.holding((unit,)), node.system.releasing(unit)
        parts = [self._open(held, relax(held, self.norm), node.depth + 1)]
        if released is not None:
            parts.append(self._open(released, self._released(node, released), node.depth + 1))
        node.division = _Division(unit, None, tuple(parts))

    def _released(self, node: _Node, system: System) -> Nearest:
        """The cheapest change of a part in which a unit counts: the same, unless others must not.

        Only the bound differs.
        """
        if (system.lower != node.system.lower).any() or (system.upper != node.system.upper).any():
            return relax(system, self.norm)
        multipliers, bound = self.norm.stretch(system, node.multipliers)
        return Nearest(node.nearest.u, max(bound, 0.0), Leaf(multipliers))

    def _sharpen(self, node: _Node, u: Array) -> None:
        """The cheapest change of the units that change the most may be an answer.

        Its multipliers prove it, if those of other units would not gain more; else a mean of these
        and the node's own may prove more than either.
        """
        node.sharpened = True
        support = node.system.support
        assert support is not None
        few = self._fitted(node.system.holding(support.choice(support.sizes(u))))
        if few.u is None or not isinstance(few.tree, Leaf):
            return
        if self.grid is None or self.grid.fractional(few.u) is None:
            self._improve(few.u)
        own, other = node.multipliers, few.tree.multipliers
        for share in _SHARES:
            mixed, bound = self.norm.stretch(node.system, (1 - share) * own + share * other)
            if bound > node.nearest.bound:
                node.nearest = Nearest(u, bound, Leaf(mixed))
            if bound >= (1 - _GAP) * self.cost:
                return

    def _fitted(self, system: System) -> Nearest:
        """The cheapest change of few units, which several parts may ask for."""
        key = system.lower.tobytes() + system.upper.tobytes()
        if key not in self._few:
            self._few[key] = relax(system, self.norm)
        return self._few[key]

    def _assemble(self, name: int) -> Tree:
        node = self.nodes[name]
        if node.division is None:
            return Leaf(self._padded(node.multipliers))
        which, at, numbers = node.division.which, node.division.at, node.division.parts
        first, *last = (self._assemble(part) for part in numbers)
        if at is not None:
            return Split(which, at, first, last[0])
        return Choice(which, first, last[0] if last else Leaf(self._padded(node.multipliers)))
