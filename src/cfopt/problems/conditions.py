"""Linear conditions on decisions, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array, Indices

#: How far a decision may break a condition, as a fraction of its terms (at least of 1).
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Conditions:
    """`lower <= matrix @ y <= upper`.

    Arguments:
        matrix: `(K, m)`.
        lower, upper: -inf and inf where there is no limit, `(K,)`.
    """

    matrix: Array
    lower: Array
    upper: Array

    def __len__(self) -> int:
        return len(self.matrix)

    @classmethod
    def sums(
        cls, width: int, groups: Sequence[Sequence[int]], lower: float, upper: float
    ) -> Conditions:
        """The same limits for the sum of each group of columns."""
        matrix = np.zeros((len(groups), width))
        for row, group in enumerate(groups):
            matrix[row, list(group)] = 1.0
        return cls(matrix, np.full(len(groups), float(lower)), np.full(len(groups), float(upper)))

    @classmethod
    def join(cls, parts: Sequence[Conditions]) -> Conditions:
        """All of several conditions."""
        return cls(
            np.concatenate([part.matrix for part in parts]),
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
        )

    def met(self, decisions: Array) -> NDArray[np.bool_]:
        """Which decisions meet all of them: `(B, m) -> (B,)`."""
        total = decisions @ self.matrix.T
        slack = _TOLERANCE * np.maximum(1.0, np.abs(decisions) @ np.abs(self.matrix).T)
        within = (total >= self.lower - slack) & (total <= self.upper + slack)
        return np.asarray(within.all(axis=1))

    def negations(self, integer: NDArray[np.bool_]) -> list[Conditions] | None:
        """What decisions that break one of them meet, one of these for each way to break it.

        None where that is no closed set: sums of whole numbers, with whole coefficients, break a
        limit by at least 1; others may do so by as little as they like.

        Arguments:
            integer: which columns are whole numbers, `(m,)`.
        """
        used = self.matrix.any(axis=0)
        if not integer[used].all() or (self.matrix != self.matrix.round()).any():
            return None
        found = []
        for row, low, high in zip(self.matrix, self.lower, self.upper, strict=True):
            for below, above in ((-np.inf, np.ceil(low) - 1), (np.floor(high) + 1, np.inf)):
                if np.isfinite(below) or np.isfinite(above):
                    found.append(Conditions(row[None], np.array([below]), np.array([above])))
        return found

    def split(self) -> tuple[list[Indices], list[int], Conditions]:
        """Groups of columns of which one must be taken, columns that must not be, and the rest.

        For decisions of which every column is 0 or 1.
        """
        forced: list[Indices] = []
        forbidden: list[int] = []
        rest = np.zeros(len(self), dtype=bool)
        for k, (row, low, high) in enumerate(zip(self.matrix, self.lower, self.upper, strict=True)):
            columns = np.flatnonzero(row)
            plain = bool((row[columns] == 1).all())
            if plain and high < 1 and low <= 0:
                forbidden += columns.tolist()
            elif plain and 0 < low <= 1 and high >= len(columns):
                forced.append(columns)
            else:
                rest[k] = True
        left = Conditions(self.matrix[rest], self.lower[rest], self.upper[rest])
        return forced, forbidden, left
