"""What a norm is to exact searches: finding the nearest point, and bounding it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.daqp import Refutation
from cfopt.exact.geometry.highs import Optimum
from cfopt.exact.geometry.support import Support
from cfopt.exact.geometry.system import System

#: How far, at most, a solver's answer may break a limit: rows have norm 1.
_BREACH = 1e-7
#: By what fraction of the cost an answer may be above its bound.
_GAP = 1e-8
#: Problems of these sizes are solved as they are.
_USUAL = (1e-2, 1e2)


class Norm(ABC):
    """What a change u costs."""

    #: The cost of a change grows with this power of its length.
    power: int

    @abstractmethod
    def __call__(self, u: Array) -> float:
        """The cost of a change."""

    @abstractmethod
    def dual(self, normals: Array) -> Array:
        """The most that `g @ u` can be over all u of length 1: `(..., p) -> (...)`."""

    @abstractmethod
    def steepest(self, normals: Array) -> Array:
        """The u of length 1 at which that is reached, 0 where g is: `(..., p) -> (..., p)`."""

    #: The k of `(sum_j |u_j|^k)^(1/k)`.
    order: float

    def at_distance(self, distance: float, size: int) -> float:
        """The least cost of a change of `size` entries that is as long as this in Euclid's norm."""
        return float((distance * _least_ratio(2.0, self.order, size)) ** self.power)

    def least_ratio(self, other: Norm, size: int) -> float:
        """The least length in another norm of what has length 1 in this one."""
        return _least_ratio(self.order, other.order, size)

    def within(self, normals: Array, support: Support) -> Array:
        """The same as `dual`, or more, where only some entries of u may differ from 0."""
        return self.dual(normals)

    def to_half_spaces(
        self, excess: Array, normals: Array, support: Support | None = None
    ) -> Array:
        """What it costs at least to reach half-spaces `g @ u <= -excess`: `(D,), (D, p) -> (D,)`.

        `(excess / |g|_dual)^power` where it is > 0: exactly that, unless only some entries may
        change.
        """
        steepness = self.dual(normals) if support is None else self.within(normals, support)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = (excess / steepness) ** self.power
        return np.where(excess > 0, cost, 0.0)

    def to_both(self, excess: Array, normals: Array, cases: Array) -> tuple[Array, Array]:
        """What it costs at least to reach two half-spaces in each of some cases.

        `(2, D), (2, D, p), (H, p) -> (D, H), (2, D, H)`, with the entries of each case that may
        change, and weights of the two of which it follows. No more than the costlier of the two; a
        half-space that nothing reaches is left out.
        """
        size = (normals.shape[1], len(cases))
        return np.zeros(size), np.zeros((2, *size))

    def to_each_and(self, other: Array, missed: float, excess: Array, normals: Array) -> Array:
        """What it costs at least to reach each half-space and another one: `(D,), (D, p) -> (D,)`.

        As `to_both` says of the two, where all entries may change.

        Arguments:
            other, missed: the other one, `other @ u <= -missed`, `(p,)`.
            excess, normals: the half-spaces, `normals @ u <= -excess`.
        """
        return np.zeros(len(excess))

    @abstractmethod
    def attempts(self, system: System) -> Iterator[Optimum | Refutation | None]:
        """What each solver in turn takes to be the cheapest change, or to refute that it exists."""

    @abstractmethod
    def bound(self, system: System, multipliers: Array) -> float:
        """A lower bound on the cost of every solution, for any multipliers."""

    def stretch(self, system: System, multipliers: Array) -> tuple[Array, float]:
        """Multipliers that prove more where only some entries may change, and what they prove."""
        return multipliers, self.bound(system, multipliers)

    def nearest(self, system: System) -> tuple[Optimum, float] | Refutation | None:
        """The cheapest solution of a system, and the bound that its multipliers prove.

        A refutation, if a solver comes upon one that is sound; None if there is no solution, or no
        solver finds it. An answer that is not proved by its own multipliers gives way to that of
        another solver.
        """
        best: tuple[Optimum, float] | None = None
        # Solvers have absolute tolerances: a problem of about size 1 suits them.
        unit = system.reach()
        unit = 1.0 if _USUAL[0] <= unit <= _USUAL[1] else unit
        for target in (system.tightened(), system):
            small = target if unit == 1 else target.scaled(unit)
            for found in self.attempts(small):
                if found is None or len(found.multipliers) != len(system.matrix):
                    continue
                if isinstance(found, Refutation):
                    if np.isfinite(found.multipliers).all() and system.refutes(found.multipliers):
                        return found
                    continue
                size = max(1.0, float(np.abs(found.values).max(initial=0.0)))
                if not small.breach(found.values) <= _BREACH * size:
                    continue  # or not a number
                multipliers = found.multipliers * unit ** (self.power - 1)
                answer = Optimum(found.values * unit, multipliers)
                multipliers, bound = self.stretch(system, multipliers)
                answer, cost = replace(answer, multipliers=multipliers), self(answer.values)
                if cost - bound <= _GAP * cost:
                    return answer, bound
                if best is None or cost < self(best[0].values):
                    best = answer, bound
        return best


def _least_ratio(own: float, other: float, size: int) -> float:
    """The same for norms of two orders: `size^(1/other - 1/own)` if own < other, else 1."""
    return float(min(1.0, size ** (1 / other - 1 / own)))
