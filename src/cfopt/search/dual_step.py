"""Step problems with few half-spaces and any number of features, solved by their duals."""

from __future__ import annotations

import daqp
import numpy as np

from cfopt._typing import Array

#: How often entries that leave the bounds are held there and the rest is solved again.
_ROUNDS = 20
#: Keeps the dual strictly convex where normals depend on each other, or clash; they have length 1.
_RIDGE = 1e-10
#: DAQP's infinity.
_OPEN = 1e30


def nearest_by_dual(
    normals: Array, limits: Array, lower: Array, upper: Array, weight: Array
) -> Array:
    """The nearest u within a box and c half-spaces, `min sum_j u_j^2 / w_j`, `G u <= b`.

    It is `-w * (G' t)` with the multipliers t >= 0, c of them, that solve

        min 1/2 t' (G diag(w) G') t + b' t

    Entries that leave the box are held at its bounds, and the others are solved for again: exact
    for one half-space, near enough for a step with several. Half-spaces that clash are broken, by
    a u that is long.

    Arguments:
        normals, limits: G and b, `(c, p)` and `(c,)`.
        lower, upper: the box, which contains 0, `(p,)`.
        weight: w > 0, how cheap each feature is to change, `(p,)`.
    """
    length = np.sqrt(np.square(normals) @ weight)
    useful = length > 0
    unit, rest = normals[useful] / length[useful, None], limits[useful] / length[useful]
    count = len(rest)
    u, held = np.zeros(len(weight)), np.zeros(len(weight), dtype=bool)
    for _ in range(_ROUNDS if count else 0):
        free = np.where(held, 0.0, weight)
        gram = (unit * free) @ unit.T
        found, _, flag, _ = daqp.solve(
            gram + _RIDGE * np.eye(count),
            rest - unit[:, held] @ u[held],
            np.empty((0, count)),
            np.full(count, _OPEN),
            np.zeros(count),
        )
        if flag <= 0:
            break
        u = np.where(held, u, -free * (found @ unit))
        outside = (u < lower) | (u > upper)
        if not outside.any():
            break
        u, held = np.clip(u, lower, upper), held | outside
    return u
