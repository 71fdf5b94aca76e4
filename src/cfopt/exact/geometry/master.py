"""The cheapest change that meets all cuts so far; whole numbers by branch and bound."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.exact.geometry.norms import Norm
from cfopt.exact.geometry.system import HalfSpaces, System

#: A value this near to a whole number is one.
_WHOLE = 1e-7
#: How many branches are looked at, and how many of them within each other.
_MOST_NODES, _DEEPEST = 5000, 300


@dataclass(frozen=True)
class Leaf:
    """Multipliers of a system's rows, `(k,)`: they bound the cost, or show a clash."""

    multipliers: Array


@dataclass(frozen=True)
class Split:
    """A whole-numbered feature is at most `at` in one part, at least `at + 1` in the other."""

    feature: int
    at: int
    below: Tree
    above: Tree


Tree: TypeAlias = Leaf | Split


@dataclass(frozen=True)
class Grid:
    """Which entries of `origin + scale * u` must be whole numbers, `(p,)` each."""

    origin: Array
    scale: Array
    integer: NDArray[np.bool_]

    def change(self, feature: int, value: float) -> float:
        """The u at which a feature has a value."""
        return float((value - self.origin[feature]) / self.scale[feature])

    def fractional(self, u: Array) -> tuple[int, float] | None:
        """The feature farthest from a whole number, and its value; None if all are whole."""
        x = self.origin + self.scale * u
        off = np.where(self.integer, np.abs(x - x.round()), 0.0)
        worst = int(off.argmax()) if len(off) else 0
        return None if not len(off) or off[worst] <= _WHOLE else (worst, float(x[worst]))


@dataclass(frozen=True)
class Nearest:
    """The answer of a master problem.

    Arguments:
        u: the cheapest change, `(p,)`; None if there is none, or it was not found.
        bound: what every allowed change costs at least; inf if there is none.
        tree: multipliers that prove it.
    """

    u: Array | None
    bound: float
    tree: Tree


def proved_bound(system: System, norm: Norm, tree: Tree, grid: Grid | None = None) -> float:
    """What a tree of multipliers proves about the cost of every solution; inf if there is none."""
    if (system.lower > system.upper).any():
        return np.inf
    if isinstance(tree, Leaf):
        if len(tree.multipliers) != len(system.matrix):
            return 0.0  # they belong to another system
        bound = max(0.0, norm.bound(system, tree.multipliers))
        radius = system.radius(tree.multipliers)
        if radius == 0:
            return bound
        # No answer lies within the radius, so the nearest is at least that far away.
        return np.inf if system.refutes(tree.multipliers) else max(bound, radius**norm.power)
    if grid is None or not grid.integer[tree.feature]:
        return 0.0  # only a whole number has nothing between at and at + 1
    below, above = _divide(system, grid, tree.feature, tree.at)
    return min(
        proved_bound(below, norm, tree.below, grid), proved_bound(above, norm, tree.above, grid)
    )


def leaves(system: System, tree: Tree, grid: Grid | None) -> list[tuple[System, Leaf]]:
    """The parts into which a tree divides a system."""
    if isinstance(tree, Leaf) or grid is None:
        return [(system, tree)] if isinstance(tree, Leaf) else []
    below, above = _divide(system, grid, tree.feature, tree.at)
    return leaves(below, tree.below, grid) + leaves(above, tree.above, grid)


class Master:
    """`min norm(u)` over a system that grows by cuts.

    Arguments:
        system: the limits on u.
        norm: what to minimise.
        grid: a flag for each entry that is a whole number, if any.
        deadline: when to give up branching, by `time.monotonic`.
    """

    def __init__(
        self, system: System, norm: Norm, grid: Grid | None = None, deadline: float = np.inf
    ) -> None:
        self.system = system
        self.norm = norm
        self.grid = grid if grid is not None and grid.integer.any() else None
        self._deadline = deadline

    def add(self, cuts: HalfSpaces) -> None:
        """Add cuts."""
        self.system = self.system.with_cuts(cuts)

    def solve(self) -> Nearest:
        """The cheapest change, the bound that proves it, or a proof that there is none."""
        if self.grid is None:
            return _relax(self.system, self.norm)
        return self._branch(self.grid)

    def _branch(self, grid: Grid) -> Nearest:
        """Best first: the open branch of the least bound is divided, until it is whole."""
        # A node is a leaf, or a split: its feature, where, and the numbers of the two parts.
        first = _relax(self.system, self.norm)
        nodes: list[Tree | tuple[int, int, int, int]] = [first.tree]
        heap = [(first.bound, 0, first.u, self.system, 0)]
        best: Array | None = None
        while heap:
            _, name, u, system, depth = heap[0]
            if u is None:
                break  # only proved clashes, or unsolved branches, are left
            deep = depth >= _DEEPEST or len(nodes) > _MOST_NODES
            if deep or time.monotonic() > self._deadline:
                break  # whole numbers without bounds may go on for ever
            found = grid.fractional(u)
            if found is None:
                best = u  # branches come in the order of their bounds: nothing cheaper is left
                break
            heapq.heappop(heap)
            feature, value = found
            at = int(np.floor(value))
            nodes[name] = (feature, at, len(nodes), len(nodes) + 1)
            for part in _divide(system, grid, feature, at):
                solved = _relax(part, self.norm)
                heapq.heappush(heap, (solved.bound, len(nodes), solved.u, part, depth + 1))
                nodes.append(solved.tree)
        least = min((bound for bound, *_ in heap), default=np.inf)
        return Nearest(best, least, _assemble(0, nodes))


def _assemble(name: int, nodes: list[Tree | tuple[int, int, int, int]]) -> Tree:
    node = nodes[name]
    if not isinstance(node, tuple):
        return node
    feature, at, below, above = node
    return Split(feature, at, _assemble(below, nodes), _assemble(above, nodes))


def _divide(system: System, grid: Grid, feature: int, at: int) -> tuple[System, System]:
    upper, lower = system.upper.copy(), system.lower.copy()
    upper[feature] = min(upper[feature], grid.change(feature, at))
    lower[feature] = max(lower[feature], grid.change(feature, at + 1))
    return system.within(system.lower, upper), system.within(lower, system.upper)


def _relax(system: System, norm: Norm) -> Nearest:
    """The cheapest change, whole numbers or not, with the bound that its multipliers prove."""
    nothing = Leaf(np.zeros(len(system.matrix)))
    if (system.lower > system.upper).any():
        return Nearest(None, np.inf, nothing)
    found = norm.nearest(system)
    if found is not None:
        solution, bound = found
        return Nearest(solution.values, max(0.0, bound), Leaf(solution.multipliers))
    multipliers = system.clash()
    if multipliers is None:
        return Nearest(None, 0.0, nothing)  # neither a solution nor a proof: nothing is claimed
    return Nearest(None, np.inf, Leaf(multipliers))
