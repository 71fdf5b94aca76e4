"""Cases into which a system is divided, and what multipliers prove in each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array, Flags
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.norms import Euclidean
from cfopt.exact.geometry.system import FAR, ROUNDING, System

#: A value this near to a whole number is one.
_WHOLE = 1e-7
#: What |g|^2 counts as at the least, where it is divided by.
_VANISHING = 1e-24


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


@dataclass(frozen=True)
class Choice:
    """A unit of the system's support does not change in one part, and counts in the other."""

    unit: int
    held: Tree
    released: Tree


@dataclass(frozen=True)
class Cases:
    """Multipliers for each case of a support, in the order in which it lists them: `(H, k)`."""

    multipliers: Array


Tree: TypeAlias = Leaf | Split | Choice | Cases


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

    def divide(self, system: System, feature: int, at: int) -> tuple[System, System]:
        """The parts of a system in which a feature is at most `at`, and at least `at + 1`."""
        upper, lower = system.upper.copy(), system.lower.copy()
        upper[feature] = min(upper[feature], self.change(feature, at))
        lower[feature] = max(lower[feature], self.change(feature, at + 1))
        return system.within(system.lower, upper), system.within(lower, system.upper)


def proved_bound(system: System, norm: Norm, tree: Tree, grid: Grid | None = None) -> float:
    """What a tree of multipliers proves about the cost of every solution; inf if there is none."""
    if (system.lower > system.upper).any():
        return np.inf
    if isinstance(tree, Leaf):
        if len(tree.multipliers) != len(system.matrix):
            return 0.0  # they belong to another system
        radius, refuted = system.exclusion(tree.multipliers)
        if refuted:
            return np.inf
        bound = max(0.0, norm.bound(system, tree.multipliers))
        # No answer lies within the radius, so the nearest is at least that far away.
        return max(bound, norm.at_distance(radius, len(system.lower))) if radius else bound
    if isinstance(tree, Cases) and isinstance(norm, Euclidean):
        cases = listed_cases(system, tree)
        if cases is not None and case_exclusions(system, cases, tree.multipliers)[1].all():
            return np.inf
        if system.leeway is None:
            return 0.0 if cases is None else _least_case(system, cases, tree.multipliers)
    parts = _parts(system, tree, grid)
    if parts is None:
        return 0.0
    return min((proved_bound(part, norm, below, grid) for part, below in parts), default=np.inf)


def leaves(system: System, tree: Tree, grid: Grid | None) -> Iterator[tuple[System, Leaf]]:
    """The parts into which a tree divides a system, those without a solution apart."""
    if isinstance(tree, Leaf):
        yield system, tree
        return
    for part, below in _parts(system, tree, grid) or ():
        if (part.lower <= part.upper).all():
            yield from leaves(part, below, grid)


def splits(tree: Tree) -> Iterator[Split | Choice]:
    """All divisions of a tree."""
    if isinstance(tree, Split):
        yield from (tree, *splits(tree.below), *splits(tree.above))
    if isinstance(tree, Choice):
        yield from (tree, *splits(tree.held), *splits(tree.released))


def case_bounds(system: System, cases: Array, multipliers: Array) -> Array:
    """What multipliers prove of |u|^2 in cases without bounds: `(H, p), (H, k) -> (H,)`.

    `-c - |g|^2 / 4` with the inequality `g @ u <= c` that follows, over the entries of the case.
    """
    above = np.maximum(multipliers, 0.0)
    g = (above @ system.matrix) * cases
    bounds: Array = -(above @ system.row_upper) - 0.25 * np.square(g).sum(axis=1)
    return bounds


def best_multiple(system: System, case: Array, multipliers: Array) -> tuple[Array, float]:
    """Multipliers that prove the most of their multiples in a case, and what: `(p,), (k,)`.

    `-t c - t^2 |g|^2 / 4` is the largest at `t = -2 c / |g|^2`.
    """
    above: Array = np.maximum(multipliers, 0.0)
    g, c = (above @ system.matrix) * case, float(above @ system.row_upper)
    if c >= 0:
        return above, -c - 0.25 * float(g @ g)
    # Where nothing moves the sum, the case is hopeless, and any multiple proves as much as it is.
    multiple = -2 * c / max(float(g @ g), _VANISHING)
    return multiple * above, -0.5 * multiple * c


def case_exclusions(system: System, cases: Array, multipliers: Array) -> tuple[Array, Flags]:
    """As `System.exclusion` says of one: `(H, p), (H, k) -> (H,), (H,)`, without bounds.

    The distance of u = 0 within which the multipliers prove that a case has no solution, and
    whether it has none at all.
    """
    above = np.maximum(multipliers, 0.0)
    g, c = (above @ system.matrix) * cases, above @ system.row_upper
    noise = above @ (ROUNDING * np.abs(system.row_upper) + system.rows[3])
    excess = -c - noise  # rounding must not pass for an excess
    constant, growth = np.zeros(len(above)), np.zeros_like(g)
    if system.leeway is not None:
        constant, growth = above @ system.leeway.constant, above @ system.leeway.growth
    vanishes = (np.abs(g) <= (above @ (system.rows[4] + ROUNDING))[:, None]).all(axis=1)
    slope = np.sqrt(np.square((np.abs(g) + growth) * cases).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.where(excess > constant, (excess - constant) / slope, 0.0)
    # All that counts is above 0, also where the leeway is none.
    return radius, (excess > FAR * constant) & (excess > 0) & vanishes


def listed_cases(system: System, tree: Cases) -> Array | None:
    """Which entries may change in each case, `(H, p)`, where that alone limits a change.

    None if something else does, or the multipliers belong to another system.
    """
    support, free = system.support, system.held_or_free
    if support is None or support.cases is None or free is None:
        return None
    if tree.multipliers.shape != (len(support.cases), len(system.matrix)):
        return None
    if not np.isfinite(system.row_upper).all():
        return None
    return support.cases * free


def _least_case(system: System, cases: Array, multipliers: Array) -> float:
    return max(0.0, float(case_bounds(system, cases, multipliers).min()))


def _parts(
    system: System, tree: Split | Choice | Cases, grid: Grid | None
) -> list[tuple[System, Tree]] | None:
    """The parts of a division, which cover all solutions; None if they need not."""
    if isinstance(tree, Cases):
        others = None if system.support is None else system.support.held_in_cases
        if others is None or len(others) != len(tree.multipliers):
            return None
        pairs = zip(others, tree.multipliers, strict=True)
        return [(system.holding(units), Leaf(multipliers)) for units, multipliers in pairs]
    if isinstance(tree, Split):
        if grid is None or not grid.integer[tree.feature]:
            return None  # only a whole number has nothing between at and at + 1
        below, above = grid.divide(system, tree.feature, tree.at)
        return [(below, tree.below), (above, tree.above)]
    support = system.support
    if support is None or not support.open[tree.unit]:
        return None  # what is not limited, or decided, cannot be decided
    released = system.releasing(tree.unit)
    parts: list[tuple[System, Tree]] = [(system.holding((tree.unit,)), tree.held)]
    return parts if released is None else [*parts, (released, tree.released)]
