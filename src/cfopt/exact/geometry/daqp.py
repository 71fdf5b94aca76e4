"""DAQP, a dual active-set solver: the change of least Euclidean length that satisfies a system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import daqp
import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.highs import Optimum
from cfopt.exact.geometry.system import System

#: The number of features from which it pays to work in the span of the normals.
_WIDE = 200
#: DAQP's infinity.
_OPEN = 1e30


@dataclass(frozen=True)
class Refutation:
    """Multipliers of rows, `(k,)`, that show a clash."""

    multipliers: Array


def nearest_by_daqp(system: System) -> Optimum | Refutation:
    """The solution of least `|u|^2`, or multipliers of rows that clash; not yet checked."""
    if system.plain:
        return nearest_by_daqp_within(system.matrix, system.rows[1])
    free = system.lower < system.upper
    held = np.where(free, 0.0, system.lower)
    size, count = int(free.sum()), len(system.matrix)
    taken = system.matrix @ held
    if size == 0:
        over, under = taken - system.row_upper, system.row_lower - taken
        worst = np.where(np.maximum(over, under) > 0, np.where(over > under, 1.0, -1.0), 0.0)
        first = np.arange(count) == np.maximum(over, under).argmax() if count else worst
        return Refutation(worst * first) if worst.any() else Optimum(held, np.zeros(count))
    upper = np.concatenate([system.upper[free], system.row_upper - taken])
    lower = np.concatenate([system.lower[free], system.row_lower - taken])
    matrix = np.ascontiguousarray(system.matrix[:, free])
    u, _, flag, info = daqp.solve(
        *_objective(size), matrix, np.clip(upper, -_OPEN, _OPEN), np.clip(lower, -_OPEN, _OPEN)
    )
    if flag <= 0:
        return _clash_of(matrix, np.asarray(info["lam"])[size:])
    held[free] = u
    return Optimum(held, np.asarray(info["lam"])[size:])


def _clash_of(matrix: Array, weights: Array) -> Refutation:
    """Where DAQP finds nothing, its weights are of rows of norm 1, and their sum vanishes."""
    norm = np.sqrt(np.square(matrix).sum(axis=1))
    if len(weights) == len(norm):
        weights = np.divide(weights, norm, where=norm > 0, out=weights.copy())
    return Refutation(weights)


def nearest_by_daqp_within(matrix: Array, limits: Array) -> Optimum | Refutation:
    """The same of half-spaces alone, `matrix @ u <= limits`: `(k, p), (k,)`.

    The nearest point is a combination of the normals, of which there are few.
    """
    basis = None
    if matrix.shape[1] > _WIDE:
        basis = np.linalg.qr(matrix.T)[0]
        matrix = np.ascontiguousarray(matrix @ basis)
    u, _, flag, info = daqp.solve(*_objective(matrix.shape[1]), matrix, limits)
    if flag <= 0:
        return _clash_of(matrix, np.asarray(info["lam"]))
    return Optimum(u if basis is None else basis @ u, np.asarray(info["lam"]))


@lru_cache(maxsize=16)
def _objective(size: int) -> tuple[Array, Array]:
    return 2 * np.eye(size), np.zeros(size)
