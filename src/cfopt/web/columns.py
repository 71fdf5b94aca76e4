"""What the entries of a decision may be, so that one can be entered by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cfopt.problems import MILP, Finite, TerrainShortestPath
from cfopt.problems.base import Problem
from cfopt.report.naming import column_name
from cfopt.types import Array

#: Of more columns nobody enters a decision by hand.
_MOST = 2000


def names(problem: Problem) -> list[str] | None:
    """What the columns are called; None where they are too many."""
    count = problem.num_columns
    return [column_name(problem, j) for j in range(count)] if count <= _MOST else None


def columns(problem: Problem) -> list[dict[str, Any]] | None:
    """The name of each column, its bounds where they are known, and whether it is whole or 0/1."""
    called = names(problem)
    if called is None:
        return None
    lower, upper, integer = _bounds(problem)
    return [
        {
            "name": name,
            "integer": bool(integer[j]),
            "binary": bool(integer[j] and lower[j] >= 0 and upper[j] <= 1),
            "lower": float(lower[j]) if math.isfinite(lower[j]) else None,
            "upper": float(upper[j]) if math.isfinite(upper[j]) else None,
        }
        for j, name in enumerate(called)
    ]


def _bounds(problem: Problem) -> tuple[Array, Array, Any]:
    """The least and the greatest value of each column, and which are whole: each `(m,)`."""
    count = problem.num_columns
    if isinstance(problem, MILP):
        model, priced = problem._model, problem._priced
        return model.lower[priced], model.upper[priced], model.integer[priced]
    if isinstance(problem, Finite):
        listed = problem._decisions
        return listed.min(axis=0), listed.max(axis=0), (listed == listed.round()).all(axis=0)
    if problem.binary:
        return np.zeros(count), np.ones(count), np.ones(count, dtype=bool)
    if isinstance(problem, TerrainShortestPath):  # visits of cells
        return np.zeros(count), np.full(count, np.inf), np.ones(count, dtype=bool)
    return np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count, dtype=bool)
