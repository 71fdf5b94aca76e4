"""Norms, and the nearest point of a polyhedron by quadprog and by HiGHS through scipy."""

from __future__ import annotations

import numpy as np
import quadprog
import scipy.optimize

from benchmarks.hostile.instances import Array


def length(u: Array, norm: float) -> Array:
    """`(K, p) -> (K,)`."""
    return np.linalg.norm(u, ord=norm, axis=1)


def steepest(slopes: Array, norm: float) -> Array:
    """The point of the unit ball in which each linear function is largest: `(K, p) -> (K, p)`."""
    if norm == 2:
        return slopes / np.maximum(length(slopes, 2), 1e-300)[:, None]
    if norm == np.inf:
        return np.sign(slopes)
    largest = np.abs(slopes).argmax(axis=1)
    return np.sign(slopes) * np.eye(slopes.shape[1])[largest]


def nearest_point(g: Array, h: Array, norm: float, below: float) -> Array | None:
    """The least u with `g u <= h`; None if there is none that is less than a length."""
    size = g.shape[1]
    long = np.linalg.norm(g, axis=1)
    if (h[long <= 1e-12] < -1e-9).any():
        return None
    g, h = g[long > 1e-12] / long[long > 1e-12, None], h[long > 1e-12] / long[long > 1e-12]
    if (h >= 0).all():
        return np.zeros(size)
    try:
        u = quadprog.solve_qp(np.eye(size), np.zeros(size), -g.T, -h)[0]
    except ValueError:
        return None
    if norm == 2:
        return u
    # No norm is less than these fractions of the Euclidean one.
    if np.linalg.norm(u) * (1.0 if norm == 1 else size**-0.5) >= below:
        return None
    # u = a - b, and either the sum of a and b is least, or the largest of all.
    shared = int(norm == np.inf)
    costs = np.append(np.full(2 * size, 1.0 - shared), np.ones(shared))
    rows = np.hstack([g, -g, np.zeros((len(g), shared))])
    if shared:
        rows = np.vstack([rows, np.hstack([np.eye(size)] * 2 + [-np.ones((size, 1))])])
        h = np.append(h, np.zeros(size))
    found = scipy.optimize.linprog(costs, rows, h, method="highs")
    return found.x[:size] - found.x[size : 2 * size] if found.status == 0 else None
