"""Multipliers that show that nothing satisfies a system."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.highs import solve_program
from cfopt.exact.geometry.system import System


def find_clash(system: System) -> Array | None:
    """Multipliers of rows that clash, `(k,)`; None if none are found.

    Preferably such that need no bounds, or at least not those that hold an entry in place: then a
    user knows that loosening these would not help.
    """
    lower, upper = system.lower, system.upper
    held, free = lower == upper, np.full_like(lower, np.inf)
    boxes = [(-free, free)]
    if np.isfinite(lower).any() or np.isfinite(upper).any():
        boxes.append((np.where(held, -np.inf, lower), np.where(held, np.inf, upper)))
        boxes.append((lower, upper))
    found = (_least_relaxation(system.within(*box)) for box in boxes)
    return next((multipliers for multipliers in found if multipliers is not None), None)


def _least_relaxation(system: System) -> Array | None:
    """The dual of `min t` subject to the rows relaxed by t, if it refutes the system.

    A basic solution has a smallest possible set of rows that clash.
    """
    size, rows = len(system.lower), len(system.matrix)
    finite = [np.isfinite(system.row_upper), np.isfinite(system.row_lower)]
    column = np.ones((rows, 1))
    over = np.hstack([system.matrix, -column])[finite[0]]
    under = np.hstack([system.matrix, column])[finite[1]]
    count = len(over)
    solved = solve_program(
        np.append(np.zeros(size), 1.0),
        np.concatenate([over, under]),
        np.concatenate([np.full(count, -np.inf), system.row_lower[finite[1]]]),
        np.concatenate([system.row_upper[finite[0]], np.full(len(under), np.inf)]),
        np.append(system.lower, 0.0),
        np.append(system.upper, np.inf),
    )
    if solved is None:
        return None
    multipliers = np.zeros(rows)
    multipliers[finite[0]] += np.maximum(solved.multipliers[:count], 0.0)
    multipliers[finite[1]] += np.minimum(solved.multipliers[count:], 0.0)
    multipliers[np.abs(multipliers) < 1e-9 * np.abs(multipliers).max(initial=0.0)] = 0.0
    return multipliers if system.refutes(multipliers) else None
