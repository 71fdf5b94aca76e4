"""The step problem of trust-region searches: a convex loss within cuts that can give way."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import daqp
import numpy as np

from cfopt._typing import Array

#: What half a squared unit of excess costs where cuts cannot be met, in units of the loss.
ELASTIC = 1e4
#: How many single cuts are tried for a step, where one of them is enough.
TRIED = 3
#: DAQP's infinity.
_OPEN = 1e30
#: Curvature that makes a loss strictly convex, as a fraction of its mean one, or of its slope.
_TINY = 1e-6
#: Halvings of an interval: as many as a float has bits.
_HALVINGS = 53


class Sums(NamedTuple):
    """Limits on weighted sums that cannot give way, `lower <= matrix @ v <= upper`."""

    matrix: Array
    lower: Array
    upper: Array


class Region(NamedTuple):
    """Where a step may lead.

    Arguments:
        normals, limits: cuts `normals @ v <= limits`, `(c, n)` and `(c,)`.
        lower, upper: a box, `(n,)`.
        elastic: what half the squared excess over the cuts costs, where they cannot all be met.
        sums: further limits.
    """

    normals: Array
    limits: Array
    lower: Array
    upper: Array
    elastic: float | Array
    sums: Sums | None = None

    def only(self, choice: slice) -> Region:
        """The same with some of the cuts."""
        return self._replace(normals=self.normals[choice], limits=self.limits[choice])


class Step(NamedTuple):
    """Where a step problem leads.

    Arguments:
        v: the solution, `(n,)`.
        multipliers: those of the cuts, `(c,)`.
        met: whether the cuts are met; otherwise they are broken as little as possible.
    """

    v: Array
    multipliers: Array
    met: bool

    @property
    def price(self) -> float:
        """What a unit of excess is worth at least."""
        return float(self.multipliers.sum())


def solve_step(curvature: Array, slope: Array, region: Region) -> Step | None:
    """`min slope v + 1/2 v' curvature v` within a region, strictly convex; None if all fails."""
    rows, most = region.normals, region.limits
    least = np.full(len(most), -_OPEN)
    if region.sums is not None:
        matrix, *ends = region.sums
        lower, upper = (end.clip(-_OPEN, _OPEN) for end in ends)
        rows, least, most = (
            np.concatenate(pair) for pair in ((matrix, rows), (lower, least), (upper, most))
        )
    lower, upper = np.concatenate([region.lower, least]), np.concatenate([region.upper, most])
    met = _solve(curvature, slope, rows, lower, upper)
    size, cuts = len(slope), len(region.limits)
    if met is not None:
        return Step(met[0], met[1][len(rows) - cuts :], True)
    relief = np.zeros((len(rows), 1))
    relief[len(rows) - cuts :] = -1.0
    wider = np.zeros((size + 1, size + 1))
    wider[:size, :size], wider[-1, -1] = curvature, region.elastic
    lower = np.concatenate([region.lower, [0.0], least])
    upper = np.concatenate([region.upper, [_OPEN], most])
    slope = np.concatenate([slope, [0.0]])
    broken = _solve(wider, slope, np.hstack([rows, relief]), lower, upper)
    return broken and Step(broken[0][:size], broken[1][len(rows) - cuts :], False)


def _solve(
    curvature: Array, slope: Array, rows: Array, lower: Array, upper: Array
) -> tuple[Array, Array] | None:
    """The solution, and the multipliers of the rows."""
    v, _, flag, info = daqp.solve(curvature, slope, np.ascontiguousarray(rows), upper, lower)
    if flag <= 0 or not np.isfinite(v).all():
        return None
    return v, np.maximum(info["lam"][len(slope) :], 0.0)


def nearest_l2(region: Region) -> Step | None:
    """The step problem of `|v|^2`."""
    return solve_step(*_squares(len(region.lower)), region)


def nearest_l1(region: Region) -> Step | None:
    """The step problem of `|v|_1`, with v = added - taken, both >= 0."""
    size, (lower, upper), sums = len(region.lower), region[2:4], region.sums
    split = region._replace(
        normals=np.hstack([region.normals, -region.normals]),
        lower=np.append(lower, -upper).clip(0.0),
        upper=np.append(upper, -lower).clip(0.0),
        sums=sums and sums._replace(matrix=np.hstack([sums.matrix, -sums.matrix])),
    )
    step = solve_step(*_absolute_values(2 * size), split)
    return step and step._replace(v=step.v[:size] - step.v[size:])


@lru_cache(maxsize=64)
def _squares(size: int) -> tuple[Array, Array]:
    return 2 * np.eye(size), np.zeros(size)


@lru_cache(maxsize=64)
def _absolute_values(size: int) -> tuple[Array, Array]:
    return _TINY * np.eye(size), np.ones(size)


def nearest_in_box(regions: Region) -> tuple[Array, Array]:
    """The nearest change that meets one cut, for many rows at once, without a call for each.

        u(t) = clip(-t g / 2, lower, upper)

    with the least multiplier t in [0, elastic] for which the cut is met, by halving: the value
    `g @ u(t)` never rises with t.

    Arguments:
        regions: one cut and one box each, `(N, p)`, `(N,)`, `(N, p)` twice and `(N,)`.

    Returns the changes `(N, p)` and the multipliers `(N,)`.
    """
    normal, limit, lower, upper, elastic, _ = regions
    below, above = np.zeros_like(limit), np.array(elastic)

    def at(multiplier: Array) -> Array:
        return np.clip(-0.5 * multiplier[:, None] * normal, lower, upper)

    above[(normal * at(below)).sum(axis=1) <= limit] = 0.0
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        met = (normal * at(middle)).sum(axis=1) <= limit
        below, above = np.where(met, below, middle), np.where(met, middle, above)
    return at(above), above


def cut_cost(curvature: Array, slope: Array, normals: Array, limits: Array) -> Array:
    """What meeting each cut alone adds to the loss at least, without a box: `(c,)`.

    With `s = H^-1 slope` and `v = a' H^-1 a`: half of `max(0, -a' s - limit)^2 / v`.
    """
    solved = np.linalg.solve(curvature, np.column_stack([slope, normals.T]))
    excess = np.maximum(-normals @ solved[:, 0] - limits, 0.0)
    spread = np.einsum("cn,nc->c", normals, solved[:, 1:])
    cost: Array = 0.5 * np.square(excess) / np.maximum(spread, 1e-300)
    return cost


def strict(curvature: Array) -> Array:
    """A positive semidefinite curvature made strictly convex: `(n, n) -> (n, n)`."""
    size = len(curvature)
    floor = _TINY * max(_TINY, float(np.trace(curvature)) / size)
    convex: Array = curvature + floor * np.eye(size)
    return convex
