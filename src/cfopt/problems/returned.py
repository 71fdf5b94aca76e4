"""The decisions that callers were given, so that they are recognised when they come back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.problems.base import FEASIBILITY_TOLERANCE


class Returned:
    """A bounded memory of decisions: a solver's own answers are feasible by definition.

    Arguments:
        most: how many numbers are kept in all; the oldest decisions go first.
    """

    def __init__(self, most: int = 2**20) -> None:
        self._most = most
        self._known: dict[bytes, Array] = {}

    def add(self, decisions: Array) -> None:
        """Keep the finite ones of some decisions, `(B, m)`."""
        for one in decisions[np.isfinite(decisions).all(axis=1)] + 0.0:
            key = one.tobytes()
            self._known.pop(key, None)  # so that it becomes the newest
            self._known[key] = one
        kept = max(1, self._most // max(1, decisions.shape[1]))
        for key in list(self._known)[: max(0, len(self._known) - kept)]:
            del self._known[key]

    def knows(self, decisions: Array) -> NDArray[np.bool_]:
        """Which decisions agree with a known one up to the tolerance: `(B, m) -> (B,)`."""
        same = np.array([one.tobytes() in self._known for one in decisions + 0.0], dtype=np.bool_)
        if self._known and not same.all():
            known = np.stack(list(self._known.values()))
            slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(known))
            for row in np.flatnonzero(~same):
                same[row] = (np.abs(known - decisions[row]) <= slack).all(axis=1).any()
        return same
