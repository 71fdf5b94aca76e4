"""Answers by other means: one program over all decisions, solved by other solvers."""

from __future__ import annotations

import itertools

import clarabel
import numpy as np
import scipy.optimize
import scipy.sparse


def nearest_l2(g: np.ndarray, h: np.ndarray, equal: tuple | None = None) -> float:
    """`min |u|^2` subject to `g u <= h` and, if given, `a u == b`, by clarabel; inf if none."""
    size = g.shape[1]
    a, b = equal if equal is not None else (np.empty((0, size)), np.empty(0))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    scale = np.maximum(np.linalg.norm(g, axis=1), 1e-300)
    solver = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(2 * np.eye(size)),
        np.zeros(size),
        scipy.sparse.csc_matrix(np.concatenate([a, g / scale[:, None]])),
        np.concatenate([b, h / scale]),
        [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h))],
        settings,
    )
    solution = solver.solve()
    if "Infeasible" in str(solution.status):
        return np.inf
    assert "Solved" in str(solution.status), solution.status
    return float(np.square(solution.x).sum())


def nearest_l1(
    g: np.ndarray, h: np.ndarray, equal: tuple | None = None, integrality: object = None
) -> float:
    """`min |u|_1` likewise, by scipy."""
    size = g.shape[1]
    a, b = equal if equal is not None else (np.empty((0, size)), np.empty(0))
    found = scipy.optimize.linprog(
        np.ones(2 * size), np.hstack([g, -g]), h, np.hstack([a, -a]), b, method="highs"
    )
    return float(found.fun) if found.status == 0 else np.inf


def is_feasible(g: np.ndarray, h: np.ndarray, equal: tuple | None = None) -> bool:
    """Whether some u has `g u <= h`, by scipy."""
    size = g.shape[1]
    a, b = equal if equal is not None else (None, None)
    none = (None, None)
    found = scipy.optimize.linprog(np.zeros(size), g, h, a, b, bounds=none, method="highs")
    return found.status == 0


def every_combination(ranges: list[range]) -> list[tuple[int, ...]]:
    """All whole-number choices."""
    return list(itertools.product(*ranges))
