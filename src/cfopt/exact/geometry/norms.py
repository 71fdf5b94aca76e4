"""The norms that exact searches minimise, each with its solvers and its bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.daqp import Refutation, nearest_by_daqp
from cfopt.exact.geometry.highs import Optimum, solve_program
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.support import Support
from cfopt.exact.geometry.system import System

#: The least sine squared between normals for which their edge differs clearly from either.
_PARALLEL = 1e-6


class Euclidean(Norm):
    """`|u|^2`."""

    power = 2
    order = 2.0

    def __call__(self, u: Array) -> float:
        """`|u|^2`."""
        return float(u @ u)

    def dual(self, normals: Array) -> Array:
        """`|g|`."""
        # Not the sum of the squares, which takes longer over a short last axis.
        length: Array = np.sqrt(np.einsum("...p,...p->...", normals, normals))
        return length

    def steepest(self, normals: Array) -> Array:
        """`g / |g|`."""
        length = self.dual(normals)[..., None]
        unit: Array = np.divide(normals, length, where=length > 0, out=np.zeros_like(normals))
        return unit

    def within(self, normals: Array, support: Support) -> Array:
        """With the steepest entries that may change."""
        length: Array = np.sqrt(support.largest_sums(np.square(normals)))
        return length

    def to_both(self, excess: Array, normals: Array, cases: Array) -> tuple[Array, Array]:
        """The nearest point of the edge where both are met, unless one suffices.

        With `K = normals normals'` and weights `mu = K^-1 excess` it costs `<mu, excess>`.
        """
        first, second = (one[:, None] for one in excess)
        across: Array = (normals[0] * normals[1]) @ cases.T
        own = [np.square(one) @ cases.T for one in normals]
        determinant = own[0] * own[1] - across * across
        with np.errstate(divide="ignore", invalid="ignore"):
            single = [
                np.where((e > 0) & (size > 0), e / size, 0.0)
                for e, size in zip((first, second), own, strict=True)
            ]
            mu = (
                (own[1] * first - across * second) / determinant,
                (own[0] * second - across * first) / determinant,
            )
        # Where they are nearly parallel, rounding would decide.
        sound = determinant > _PARALLEL * own[0] * own[1]
        at_edge = sound & (mu[0] > 0) & (mu[1] > 0)
        costlier = single[0] * first >= single[1] * second
        weights: Array = np.stack(
            [
                np.where(at_edge, mu[0], np.where(costlier, single[0], 0.0)),
                np.where(at_edge, mu[1], np.where(costlier, 0.0, single[1])),
            ]
        )
        cost: Array = weights[0] * first + weights[1] * second
        return cost, weights

    def to_each_and(self, other: Array, missed: float, excess: Array, normals: Array) -> Array:
        """The nearest point of each edge, unless one of the two suffices."""
        size, own, across = float(other @ other), np.square(normals).sum(axis=1), normals @ other
        single = self.to_half_spaces(excess, normals)
        cost = np.where(own > 0, single, 0.0)
        if missed > 0 and size > 0:
            cost = np.maximum(cost, missed * missed / size)
        determinant = own * size - across * across
        weights = size * excess - across * missed, own * missed - across * excess
        # Where they are nearly parallel, rounding would decide.
        at_edge = determinant > _PARALLEL * own * size
        at_edge &= (weights[0] > 0) & (weights[1] > 0)
        total = weights[0] * excess + weights[1] * missed
        np.divide(total, determinant, where=at_edge, out=cost)
        return cost

    def attempts(self, system: System) -> Iterator[Optimum | Refutation | None]:
        """By DAQP, the fastest and most exact of those in `benchmarks/qp.py`; else by HiGHS."""
        yield nearest_by_daqp(system)
        curvature, costs = np.full(len(system.lower), 2.0), np.zeros(len(system.lower))
        rows = (system.matrix, system.row_lower, system.row_upper)
        yield solve_program(costs, *rows, system.lower, system.upper, curvature)

    def bound(self, system: System, multipliers: Array) -> float:
        """`min u^2 + g u` over the box, less c."""
        g, c = system.combine(multipliers)
        if system.leeway is None:
            return self._without_leeway(system, g, c)
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
        return system.total(least) - c - constant

    @staticmethod
    def _without_leeway(system: System, g: Array, c: float) -> float:
        if system.plain and system.support is None:
            return -0.25 * float(g @ g) - c
        u = np.minimum(np.maximum(-0.5 * g, system.lower), system.upper)
        return system.total(u * (u + g)) - c

    def stretch(self, system: System, multipliers: Array) -> tuple[Array, float]:
        """Scaled by the best factor without bounds: `t g u + u^2` is `-t^2 g^2 / 4` at the least.

        Over the entries that may change that is `-t^2 G - t c`, the most at `t = -c / (2 G)`.
        """
        if system.support is None or system.leeway is not None:
            return multipliers, self.bound(system, multipliers)
        g, c = system.combine(multipliers)
        if system.held_or_free is not None:
            gain = -system.total(-0.25 * g * g * system.held_or_free)
            if not (c < 0 and 0 < gain < np.inf):
                return multipliers, -gain - c
            factor = -c / (2 * gain)
            return factor * multipliers, -0.5 * factor * c
        bound = self._without_leeway(system, g, c)
        gain = -system.total(-0.25 * g * g)
        if not (c < 0 and 0 < gain < np.inf):
            return multipliers, bound
        factor = -c / (2 * gain)
        other = self._without_leeway(system, factor * g, factor * c)
        return (factor * multipliers, other) if other > bound else (multipliers, bound)


class Taxicab(Norm):
    """`|u|_1`."""

    power = 1
    order = 1.0

    def __call__(self, u: Array) -> float:
        """`|u|_1`."""
        return float(np.abs(u).sum())

    def dual(self, normals: Array) -> Array:
        """`max |g_j|`."""
        largest: Array = np.abs(normals).max(axis=-1, initial=0.0)
        return largest

    def steepest(self, normals: Array) -> Array:
        """One entry alone, that of the largest `|g_j|`."""
        best = np.abs(normals).argmax(axis=-1)[..., None]
        unit: Array = np.zeros_like(normals)
        signs = np.sign(np.take_along_axis(normals, best, axis=-1))
        np.put_along_axis(unit, best, signs, axis=-1)
        return unit

    def attempts(self, system: System) -> Iterator[Optimum | Refutation | None]:
        """By HiGHS, with u split into what it adds and what it takes away.

        Where it is one case of many, DAQP is asked first whether there is anything.
        """
        if system.support is not None:
            clash = nearest_by_daqp(system)
            if isinstance(clash, Refutation):
                yield clash
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
        return system.total(np.min(parts, axis=0)) - (c + constant) / steepest


class Largest(Norm):
    """`max |u_j|`."""

    power = 1
    order = np.inf

    def __call__(self, u: Array) -> float:
        """`max |u_j|`."""
        return float(np.abs(u).max(initial=0.0))

    def dual(self, normals: Array) -> Array:
        """`|g|_1`."""
        total: Array = np.abs(normals).sum(axis=-1)
        return total

    def within(self, normals: Array, support: Support) -> Array:
        """With the steepest entries that may change."""
        return support.largest_sums(np.abs(normals))

    def steepest(self, normals: Array) -> Array:
        """All entries at once, each with its sign."""
        signs: Array = np.sign(normals)
        return signs

    def attempts(self, system: System) -> Iterator[Optimum | Refutation | None]:
        """By HiGHS, with one more variable t, and `-t <= u_j <= t`."""
        size, count = len(system.lower), len(system.matrix)
        unit, column, endless = np.eye(size), np.ones((size, 1)), np.full(size, np.inf)
        matrix = np.block([[system.matrix, np.zeros((count, 1))], [unit, -column], [unit, column]])
        found = solve_program(
            np.append(np.zeros(size), 1.0),
            matrix,
            np.concatenate([system.row_lower, -endless, np.zeros(size)]),
            np.concatenate([system.row_upper, np.zeros(size), endless]),
            np.append(system.lower, 0.0),
            np.append(system.upper, np.inf),
        )
        if found is not None:
            yield Optimum(found.values[:size], found.multipliers[:count])

    def bound(self, system: System, multipliers: Array) -> float:
        """`min t + g u` over the box and `|u_j| <= t`, less c, with multipliers small enough.

        For each t the entries of u are chosen one by one, and what they add is linear in t between
        the ends of the box: the least value is at one of these.
        """
        g, c = system.combine(multipliers)
        growth, constant = system.spare(multipliers)
        falls = np.maximum(
            np.where(np.isinf(system.lower), g + growth, 0.0),
            np.where(np.isinf(system.upper), growth - g, 0.0),
        )
        steepest = max(1.0, float(falls.sum()))
        nearest = np.clip(0.0, system.lower, system.upper)
        ends = np.abs(np.concatenate([nearest, system.lower, system.upper]))
        first = np.abs(nearest).max(initial=0.0)
        least = np.inf
        for t in np.unique(ends[np.isfinite(ends) & (ends >= first)]):
            corners = (np.clip(system.lower, -t, t), nearest, np.clip(system.upper, -t, t))
            parts = [(g * u - growth * np.abs(u)) / steepest for u in corners]
            least = min(least, float(t) + system.total(np.min(parts, axis=0)))
        return least - (c + constant) / steepest
