"""The step problems of climbs among codes: a quadratic loss within cuts and a box."""

from __future__ import annotations

from typing import NamedTuple

import daqp
import numpy as np

from cfopt.types import Array

#: DAQP's infinity.
_OPEN = 1e30
#: Curvature that makes a loss strictly convex, as a fraction of the mean curvature.
_TINY = 1e-6


class Step(NamedTuple):
    """A move `(n,)`, the multipliers of the cuts `(c,)`, and whether it meets them."""

    move: Array
    multipliers: Array
    met: bool


def dearness(curvature: Array, slope: Array, normals: Array, limits: Array) -> Array:
    """The least that meeting each cut alone adds to the loss, without a box: `(c,)`.

    With `s = H^-1 slope` and `v = a' H^-1 a`: half of `max(0, -a' s - limit)^2 / v`.
    """
    solved = np.linalg.solve(_strict(curvature), np.column_stack([slope, normals.T]))
    excess = np.maximum(-normals @ solved[:, 0] - limits, 0.0)
    spread = np.einsum("cn,nc->c", normals, solved[:, 1:])
    dearness: Array = 0.5 * np.square(excess) / np.maximum(spread, 1e-300)
    return dearness


def gain(curvature: Array, slope: Array) -> float:
    """By how much a quadratic loss falls to its minimum, without cuts and box."""
    return float(0.5 * slope @ np.linalg.solve(_strict(curvature), slope))


def solve_step(
    curvature: Array, slope: Array, normals: Array, limits: Array, radius: float, penalty: float
) -> Step:
    """`min slope p + 1/2 p' curvature p` within cuts and a box; cuts give way if they must.

    Arguments:
        curvature, slope: those of the loss, `(n, n)` and `(n,)`.
        normals, limits: the cuts, `(c, n)` and `(c,)`.
        radius: the box is `|p_j| <= radius`.
        penalty: what half the squared excess over the cuts costs, where they cannot be met.
    """
    size = len(slope)
    strict = _strict(curvature)
    box = np.full(size, radius)
    open_ends = np.full(len(limits), -_OPEN)
    move, _, flag, info = daqp.solve(
        strict,
        slope,
        np.ascontiguousarray(normals),
        np.concatenate([box, limits]),
        np.concatenate([-box, open_ends]),
    )
    if flag > 0 and np.isfinite(move).all():
        return Step(move, np.maximum(info["lam"][size:], 0.0), True)
    wider = np.zeros((size + 1, size + 1))
    wider[:size, :size], wider[-1, -1] = strict, penalty
    move, _, flag, info = daqp.solve(
        wider,
        np.append(slope, 0.0),
        np.hstack([normals, np.full((len(limits), 1), -1.0)]),
        np.concatenate([box, [_OPEN], limits]),
        np.concatenate([-box, [0.0], open_ends]),
    )
    if flag > 0 and np.isfinite(move).all():
        return Step(move[:size], np.maximum(info["lam"][size + 1 :], 0.0), False)
    return Step(np.zeros(size), np.zeros(len(limits)), False)


def _strict(curvature: Array) -> Array:
    size = len(curvature)
    floor = _TINY * max(_TINY, float(np.trace(curvature)) / size)
    strict: Array = curvature + floor * np.eye(size)
    return strict
