"""The two norms that exact searches minimise: how to find the nearest point, and to bound it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import daqp
import numpy as np

from cfopt.geometry.highs import Optimum, solve_lp, solve_qp
from cfopt.geometry.system import System
from cfopt.types import Array

#: How far, at most, a solver's answer may break a limit: rows have norm 1.
_BREACH = 1e-7
#: By what part of the cost an answer may be above its bound.
_GAP = 1e-8


class Norm(ABC):
    """What a change u costs."""

    #: The cost of a change grows with this power of its length.
    power: int

    @abstractmethod
    def __call__(self, u: Array) -> float:
        """The cost of a change."""

    @abstractmethod
    def to_half_spaces(self, excess: Array, normals: Array) -> Array:
        """The cost of reaching each half-space `g @ u <= -excess`: `(D,), (D, p) -> (D,)`."""

    @abstractmethod
    def attempts(self, system: System) -> Iterator[Optimum | None]:
        """What one solver after the other takes the cheapest change for."""

    @abstractmethod
    def bound(self, system: System, multipliers: Array) -> float:
        """What every solution costs at least, whatever the multipliers."""

    def nearest(self, system: System) -> tuple[Optimum, float] | None:
        """The cheapest solution of a system, and the bound that its multipliers prove.

        None if there is none, or no solver finds it. An answer that is not proved by its own
        multipliers gives way to that of another solver.
        """
        best: tuple[Optimum, float] | None = None
        # Solvers have absolute tolerances: a problem of size 1 suits them.
        unit = system.reach()
        for target in (system.tightened(), system):
            small = target.scaled(unit)
            for found in self.attempts(small):
                if found is None or not np.isfinite(found.values).all():
                    continue
                size = max(1.0, float(np.abs(found.values).max(initial=0.0)))
                if small.breach(found.values) > _BREACH * size:
                    continue
                multipliers = found.multipliers * unit ** (self.power - 1)
                answer = Optimum(found.values * unit, multipliers)
                cost, bound = self(answer.values), self.bound(system, multipliers)
                if cost - bound <= _GAP * cost:
                    return answer, bound
                if best is None or cost < self(best[0].values):
                    best = answer, bound
        return best


class Euclidean(Norm):
    """`|u|^2`."""

    power = 2

    def __call__(self, u: Array) -> float:
        """`|u|^2`."""
        return float(u @ u)

    def to_half_spaces(self, excess: Array, normals: Array) -> Array:
        """`excess^2 / |g|^2` where it is > 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.square(excess) / np.square(normals).sum(axis=-1)
        return np.where(excess > 0, cost, 0.0)

    def attempts(self, system: System) -> Iterator[Optimum | None]:
        """By DAQP, the fastest and most exact of those in `benchmarks/qp.py`; else by HiGHS."""
        yield _by_daqp(system)
        curvature, costs = np.full(len(system.lower), 2.0), np.zeros(len(system.lower))
        rows = (system.matrix, system.row_lower, system.row_upper)
        yield solve_qp(curvature, costs, *rows, system.lower, system.upper)

    def bound(self, system: System, multipliers: Array) -> float:
        """`min u^2 + g u` over the box, less c."""
        g, c = system.combine(multipliers)
        u = np.clip(-g / 2, system.lower, system.upper)
        return float((u * u + g * u).sum() - c)


class Taxicab(Norm):
    """`|u|_1`."""

    power = 1

    def __call__(self, u: Array) -> float:
        """`|u|_1`."""
        return float(np.abs(u).sum())

    def to_half_spaces(self, excess: Array, normals: Array) -> Array:
        """`excess / max |g|` where it is > 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = excess / np.abs(normals).max(axis=-1, initial=0.0)
        return np.where(excess > 0, cost, 0.0)

    def attempts(self, system: System) -> Iterator[Optimum | None]:
        """By HiGHS, with u split into what it adds and what it takes away."""
        size = len(system.lower)
        rows = (system.row_lower, system.row_upper)
        least = np.concatenate([system.lower, -system.upper]).clip(min=0.0)
        most = np.concatenate([system.upper, -system.lower]).clip(min=0.0)
        both = np.hstack([system.matrix, -system.matrix])
        found = solve_lp(np.ones(2 * size), both, *rows, least, most)
        if found is not None:
            yield Optimum(found.values[:size] - found.values[size:], found.multipliers)

    def bound(self, system: System, multipliers: Array) -> float:
        """`min |u| + g u` over the box, less c, with multipliers small enough for it to exist."""
        g, _ = system.combine(multipliers)
        falls = np.where(g > 0, np.isinf(system.lower), np.isinf(system.upper))
        steepest = float(np.abs(g[falls]).max(initial=0.0))
        g, c = system.combine(multipliers / max(1.0, steepest))
        ends = [np.clip(0.0, system.lower, system.upper)]
        for end in (system.lower, system.upper):
            ends.append(np.where(np.isfinite(end), end, ends[0]))
        return float(np.min([np.abs(u) + g * u for u in ends], axis=0).sum() - c)


def _by_daqp(system: System) -> Optimum | None:
    free = system.lower < system.upper
    held = np.where(free, 0.0, system.lower)
    matrix = system.matrix[:, free]
    taken = system.matrix @ held
    size = int(free.sum())
    bounded = np.isfinite(system.lower[free]) | np.isfinite(system.upper[free])
    upper, lower = system.row_upper - taken, system.row_lower - taken
    if bounded.any():
        upper = np.concatenate([system.upper[free], upper])
        lower = np.concatenate([system.lower[free], lower])
    if size == 0:
        return Optimum(held, np.zeros(len(system.matrix)))
    u, _, flag, info = daqp.solve(
        2 * np.eye(size),
        np.zeros(size),
        np.ascontiguousarray(matrix),
        np.clip(upper, -1e30, 1e30),
        np.clip(lower, -1e30, 1e30),
    )
    if flag <= 0:
        return None
    held[free] = u
    return Optimum(held, np.asarray(info["lam"])[-len(matrix) :] if len(matrix) else np.empty(0))
