"""The step problems of sequential linearisation: nearest changes within cuts and a box."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import daqp
import numpy as np

from cfopt.types import Array

#: DAQP's infinity.
_OPEN = 1e30
#: Curvature that makes linear objectives strictly convex, small against their slope of 1.
_TINY = 1e-6
#: Halvings of an interval: as many as a float has bits.
_HALVINGS = 53


class Step(NamedTuple):
    """Where a step problem leads.

    Arguments:
        u: the new change, `(p,)`.
        price: the sum of the cuts' multipliers: what a unit of excess is worth at least.
        met: whether the cuts are met; else they are broken as little as they must be.
    """

    u: Array
    price: float
    met: bool


class StepProblem:
    """`min f(u)` subject to cuts, a box, and limits on sums.

    Arguments:
        taxicab: whether f is `|u|_1`; else it is `|u|^2`.
        matrix, row_lower, row_upper: limits on sums of u, `(k, p)` and `(k,)`.
    """

    def __init__(self, taxicab: bool, matrix: Array, row_lower: Array, row_upper: Array) -> None:
        self.taxicab = taxicab
        self.matrix = matrix
        self._row_lower = np.clip(row_lower, -_OPEN, _OPEN)
        self._row_upper = np.clip(row_upper, -_OPEN, _OPEN)

    def solve(
        self, normals: Array, limits: Array, lower: Array, upper: Array, penalty: float
    ) -> Step | None:
        """Meet `normals @ u <= limits` within the box, or break them as little as they must be.

        Arguments:
            normals, limits: the cuts, `(c, p)` and `(c,)`.
            lower, upper: the box, finite, `(p,)`.
            penalty: what a unit of excess costs, where the cuts cannot be met.
        """
        rows, least, most = normals, _open(len(limits)), limits
        if len(self.matrix):
            rows = np.concatenate([self.matrix, normals])
            least = np.concatenate([self._row_lower, least])
            most = np.concatenate([self._row_upper, limits])
        if self.taxicab:
            # u = added - taken, both >= 0.
            rows = np.hstack([rows, -rows])
            lower, upper = (
                np.concatenate([lower, -upper]).clip(min=0.0),
                np.concatenate([upper, -lower]).clip(min=0.0),
            )
        size = normals.shape[1]
        v, lam = _solve(rows, least, most, lower, upper, self.taxicab, None)
        met = v is not None
        if v is None or lam is None:
            relief = np.zeros((len(rows), 1))
            relief[len(self.matrix) :] = -1.0
            rows = np.hstack([rows, relief])
            lower, upper = np.append(lower, 0.0), np.append(upper, _OPEN)
            v, lam = _solve(rows, least, most, lower, upper, self.taxicab, penalty)
            if v is None or lam is None:
                return None
        price = float(np.maximum(lam[len(lam) - len(limits) :], 0.0).sum())
        return Step(v[:size] - v[size : 2 * size] if self.taxicab else v[:size], price, met)


def nearest_in_box(
    normal: Array, limit: Array, lower: Array, upper: Array, penalty: Array
) -> tuple[Array, Array]:
    """The nearest u in a box with `g @ u <= limit`, or as little above it as it must be.

        u(t) = clip(-t g / 2, lower, upper)

    with the least multiplier t in [0, penalty] for which the cut is met, by halving: the value
    `g @ u(t)` never rises with t. Done for many at once, as arrays, without a call for each.

    Arguments:
        normal, limit: one cut each, `(N, p)` and `(N,)`.
        lower, upper: the boxes, `(N, p)`.
        penalty: what a unit of excess costs, `(N,)`.

    Returns the changes `(N, p)` and the multipliers `(N,)`.
    """
    below, above = np.zeros_like(limit), penalty.copy()

    def at(multiplier: Array) -> Array:
        return np.clip(-0.5 * multiplier[:, None] * normal, lower, upper)

    above[(normal * at(below)).sum(axis=1) <= limit] = 0.0
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        met = (normal * at(middle)).sum(axis=1) <= limit
        below, above = np.where(met, below, middle), np.where(met, middle, above)
    return at(above), above


def _solve(
    rows: Array,
    least: Array,
    most: Array,
    lower: Array,
    upper: Array,
    taxicab: bool,
    penalty: float | None,
) -> tuple[Array | None, Array | None]:
    curvature, slope = _objective(rows.shape[1], taxicab, penalty is not None)
    if penalty is not None:
        slope = slope.copy()
        slope[-1] = penalty
    v, _, flag, info = daqp.solve(
        curvature,
        slope,
        np.ascontiguousarray(rows),
        np.concatenate([upper, most]),
        np.concatenate([lower, least]),
    )
    if flag <= 0 or not np.isfinite(v).all():
        return None, None
    return v, info["lam"]


@lru_cache(maxsize=64)
def _objective(size: int, taxicab: bool, elastic: bool) -> tuple[Array, Array]:
    curvature = np.full(size, _TINY if taxicab else 2.0)
    slope = np.full(size, 1.0 if taxicab else 0.0)
    if elastic:
        curvature[-1] = _TINY
    return np.diag(curvature), slope


@lru_cache(maxsize=64)
def _open(size: int) -> Array:
    return np.full(size, -_OPEN)
