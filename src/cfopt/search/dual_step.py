"""Step problems with few half-spaces and any number of features, solved by their duals."""

from __future__ import annotations

from typing import NamedTuple

import daqp
import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array

#: How often the entries that are held at the bounds are chosen anew, and a step is halved.
_ROUNDS, _HALVINGS = 30, 10
#: Keeps the dual strictly convex where normals depend on each other, or clash; they have length 1.
_RIDGE = 1e-10
#: DAQP's infinity.
_OPEN = 1e30


class Nearest(NamedTuple):
    """The nearest point u, `(p,)`, and the multipliers of the half-spaces, `(c,)`."""

    u: Array
    multipliers: Array


def nearest_by_dual(
    normals: Array, limits: Array, lower: Array, upper: Array, weight: Array
) -> Nearest:
    """The nearest u within a box and c half-spaces, `min 1/2 sum_j u_j^2 / w_j`, `G u <= b`.

    It is `clip(-w * (G' t))` with the multipliers t >= 0, c of them, that minimise the dual

        D(t) = b' t - min_u (1/2 sum_j u_j^2 / w_j + t' G u),   u within the box

    which is quadratic as long as the same entries are clipped: Newton steps, each a quadratic
    program with c variables, shortened until D falls. Half-spaces that clash are broken, by a u
    that is long.

    Arguments:
        normals, limits: G and b, `(c, p)` and `(c,)`.
        lower, upper: the box, which contains 0, `(p,)`.
        weight: w > 0, how cheap each feature is to change, `(p,)`.
    """
    length = np.sqrt(np.square(normals) @ weight)
    multipliers = np.zeros(len(limits))
    useful = length > 0
    if not useful.all():
        normals, limits, length = normals[useful], limits[useful], length[useful]
    # Of length 1, but never written down: with many features that would take as long as all else.
    rest, sizes, count = limits / length, np.outer(length, length), len(length)

    def primal(t: Array) -> tuple[Array, NDArray[np.bool_], float]:
        """u, which of its entries are free, and D."""
        raw = -weight * ((t / length) @ normals)
        u = np.clip(raw, lower, upper)
        dual = (
            (rest - (normals @ u) / length) @ t
            - 0.5 * np.square(u) @ (1 / weight)
            + 0.5 * _RIDGE * t @ t
        )
        return u, u == raw, float(dual)

    t = np.zeros(count)
    u, free, least = primal(t)
    for _ in range(_ROUNDS if count else 0):
        gram = ((normals * np.where(free, weight, 0.0)) @ normals.T) / sizes
        found, _, flag, _ = daqp.solve(
            gram + _RIDGE * np.eye(count),
            rest - (normals @ np.where(free, 0.0, u)) / length,
            np.empty((0, count)),
            np.full(count, _OPEN),
            np.zeros(count),
        )
        if flag <= 0:
            break
        for halving in range(_HALVINGS):
            there = t + 0.5**halving * (found - t)
            u_there, free_there, dual = primal(there)
            if dual <= least:
                break
        same = bool((free_there == free).all())
        t, u, free, least = there, u_there, free_there, dual
        if same:
            break
    multipliers[useful] = t / length
    return Nearest(u, multipliers)
