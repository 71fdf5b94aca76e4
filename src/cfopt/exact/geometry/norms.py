"""The two norms that exact searches minimise: finding the nearest point, and bounding it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import daqp
import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.highs import Optimum, solve_program
from cfopt.exact.geometry.system import System

#: How far, at most, a solver's answer may break a limit: rows have norm 1.
_BREACH = 1e-7
#: By what fraction of the cost an answer may be above its bound.
_GAP = 1e-8
#: The number of features from which it pays to work in the span of the normals.
_WIDE = 200
#: DAQP's infinity.
_OPEN = 1e30
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
    def to_half_spaces(self, excess: Array, normals: Array) -> Array:
        """The cost of reaching each half-space `g @ u <= -excess`: `(D,), (D, p) -> (D,)`."""

    @abstractmethod
    def attempts(self, system: System) -> Iterator[Optimum | None]:
        """What each solver in turn takes to be the cheapest change."""

    @abstractmethod
    def bound(self, system: System, multipliers: Array) -> float:
        """A lower bound on the cost of every solution, for any multipliers."""

    def nearest(self, system: System) -> tuple[Optimum, float] | None:
        """The cheapest solution of a system, and the bound that its multipliers prove.

        None if there is none, or no solver finds it. An answer that is not proved by its own
        multipliers gives way to that of another solver.
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
                size = max(1.0, float(np.abs(found.values).max(initial=0.0)))
                if not small.breach(found.values) <= _BREACH * size:
                    continue  # or not a number
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
        yield solve_program(costs, *rows, system.lower, system.upper, curvature)

    def bound(self, system: System, multipliers: Array) -> float:
        """`min u^2 + g u` over the box, less c."""
        g, c = system.combine(multipliers)
        if system.leeway is None and system.plain:
            return -0.25 * float(g @ g) - c
        if system.leeway is None:
            u = np.clip(-g / 2, system.lower, system.upper)
            return float((u * u + g * u).sum() - c)
        growth, constant = system.spare(multipliers)
        # To either side of 0, `u^2 + g u - growth |u|` is a parabola.
        sides = (
            (g + growth, system.lower, np.minimum(system.upper, 0.0)),
            (g - growth, np.maximum(system.lower, 0.0), system.upper),
        )
        least = np.full_like(g, np.inf)
        for slope, lower, upper in sides:
            u = np.clip(-slope / 2, lower, upper)
            least = np.where(lower <= upper, np.minimum(least, u * u + slope * u), least)
        return float(least.sum() - c - constant)


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
        found = solve_program(np.ones(2 * size), both, *rows, least, most)
        if found is not None:
            yield Optimum(found.values[:size] - found.values[size:], found.multipliers)

    def bound(self, system: System, multipliers: Array) -> float:
        """`min |u| + g u` over the box, less c, with multipliers small enough for it to exist."""
        g, c = system.combine(multipliers)
        growth, constant = system.spare(multipliers)
        falls = (g + growth)[np.isinf(system.lower)], (growth - g)[np.isinf(system.upper)]
        steepest = max(1.0, *(float(fall.max(initial=0.0)) for fall in falls))
        ends = [np.clip(0.0, system.lower, system.upper)]
        for end in (system.lower, system.upper):
            ends.append(np.where(np.isfinite(end), end, ends[0]))
        parts = [np.abs(u) + (g * u - growth * np.abs(u)) / steepest for u in ends]
        return float(np.min(parts, axis=0).sum() - (c + constant) / steepest)


def _by_daqp(system: System) -> Optimum | None:
    if system.plain:
        return _within_span(system)
    free = system.lower < system.upper
    held = np.where(free, 0.0, system.lower)
    size, count = int(free.sum()), len(system.matrix)
    if size == 0:
        return Optimum(held, np.zeros(count))
    taken = system.matrix @ held
    upper = np.concatenate([system.upper[free], system.row_upper - taken])
    lower = np.concatenate([system.lower[free], system.row_lower - taken])
    u, _, flag, info = daqp.solve(
        *_objective(size),
        np.ascontiguousarray(system.matrix[:, free]),
        np.clip(upper, -_OPEN, _OPEN),
        np.clip(lower, -_OPEN, _OPEN),
    )
    if flag <= 0:
        return None
    held[free] = u
    return Optimum(held, np.asarray(info["lam"])[size:])


def _within_span(system: System) -> Optimum | None:
    """Without bounds the nearest point is a combination of the normals, of which there are few."""
    matrix, basis = system.matrix, None
    if matrix.shape[1] > _WIDE:
        basis = np.linalg.qr(matrix.T)[0]
        matrix = np.ascontiguousarray(matrix @ basis)
    u, _, flag, info = daqp.solve(*_objective(matrix.shape[1]), matrix, system.rows[1])
    if flag <= 0:
        return None
    return Optimum(u if basis is None else basis @ u, np.asarray(info["lam"]))


@lru_cache(maxsize=16)
def _objective(size: int) -> tuple[Array, Array]:
    return 2 * np.eye(size), np.zeros(size)
