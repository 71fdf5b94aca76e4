"""Linear limits on a change of context, and what multipliers prove about them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cfopt.geometry.highs import solve_lp
from cfopt.types import Array

#: A proof that nothing within this many units of the origin satisfies a system is a proof.
PROOF_RADIUS = 1e6


@dataclass(frozen=True)
class System:
    """`lower <= u <= upper` and `row_lower <= matrix @ u <= row_upper`, for a change u.

    Multipliers have one entry for each row: > 0 for its upper limit, < 0 for its lower one. The
    bounds on u need none, since a linear or separable function is minimised over a box directly.

    Arguments:
        lower, upper: `(p,)`.
        matrix: `(k, p)`.
        row_lower, row_upper: `(k,)`.
        rounding: by how much an upper limit should be undercut, so that rounding elsewhere does
            not break it, `(k,)`. Solutions respect it where they can; proofs do without.
    """

    lower: Array
    upper: Array
    matrix: Array
    row_lower: Array
    row_upper: Array
    rounding: Array

    @classmethod
    def box(cls, lower: Array, upper: Array) -> System:
        """Bounds alone."""
        return cls(lower, upper, np.empty((0, len(lower))), *[np.empty(0)] * 3)

    def with_rows(
        self, matrix: Array, row_lower: Array, row_upper: Array, rounding: Array | float = 0.0
    ) -> System:
        """The system with more rows, each scaled to norm 1 (0 stays 0)."""
        norm = np.linalg.norm(matrix, axis=1)
        norm[norm == 0] = 1.0
        return replace(
            self,
            matrix=np.concatenate([self.matrix, matrix / norm[:, None]]),
            row_lower=np.concatenate([self.row_lower, row_lower / norm]),
            row_upper=np.concatenate([self.row_upper, row_upper / norm]),
            rounding=np.concatenate([self.rounding, rounding / norm]),
        )

    def tightened(self) -> System:
        """The system whose solutions keep off their upper limits by the rounding."""
        return replace(self, row_upper=self.row_upper - self.rounding)

    def within(self, lower: Array, upper: Array) -> System:
        """The system with other bounds."""
        return replace(self, lower=lower, upper=upper)

    def breach(self, u: Array) -> float:
        """By how much u breaks the worst of the limits; 0 or less if none."""
        value = self.matrix @ u
        parts = (self.lower - u, u - self.upper, self.row_lower - value, value - self.row_upper)
        return max((float(part.max()) for part in parts if len(part)), default=0.0)

    def combine(self, multipliers: Array) -> tuple[Array, float]:
        """One inequality that follows from the rows: `g @ u <= c`.

        Whatever the multipliers are it does follow: those on a limit that is not there are dropped.
        """
        above = np.where(np.isfinite(self.row_upper), np.maximum(multipliers, 0.0), 0.0)
        below = np.where(np.isfinite(self.row_lower), np.maximum(-multipliers, 0.0), 0.0)
        upper = np.where(above > 0, self.row_upper, 0.0)
        lower = np.where(below > 0, self.row_lower, 0.0)
        return (above - below) @ self.matrix, float(above @ upper - below @ lower)

    def radius(self, multipliers: Array) -> float:
        """Within which distance of u = 0 the multipliers prove that nothing satisfies the system.

        With `g @ u <= c` for all solutions: where the bounds are finite, g u has a least value;
        along the others it falls by at most `|g| |u|`. 0 proves nothing, inf that there is nothing
        at all.
        """
        g, c = self.combine(multipliers)
        side = np.where(g > 0, self.lower, self.upper)
        open_ended = ~np.isfinite(side)
        closed = float(np.where(open_ended, 0.0, g * np.where(open_ended, 0.0, side)).sum())
        excess = closed - c
        # Rounding in the sums above must not pass for an excess.
        limits = np.maximum(_finite(self.row_lower), _finite(self.row_upper))
        size = float(np.abs(multipliers) @ limits + np.abs(g) @ _finite(side))
        if excess <= 1e-13 * size:
            return 0.0
        slope = float(np.linalg.norm(g[open_ended]))
        return np.inf if slope == 0 else excess / slope

    def clash(self) -> Array | None:
        """Multipliers that show that nothing satisfies the system; None if none are found.

        Preferably such that need no bounds, or at least not those that hold an entry in place:
        then a user knows that loosening these would not help.
        """
        held = self.lower == self.upper
        free = np.full_like(self.lower, np.inf)
        boxes = [(-free, free)]
        if np.isfinite(self.lower).any() or np.isfinite(self.upper).any():
            boxes.append((np.where(held, -np.inf, self.lower), np.where(held, np.inf, self.upper)))
            boxes.append((self.lower, self.upper))
        for lower, upper in boxes:
            multipliers = self.within(lower, upper)._clash()
            if multipliers is not None:
                return multipliers
        return None

    def _clash(self) -> Array | None:
        """The dual of `min t` subject to the rows relaxed by t.

        A basic solution has a smallest possible set of rows that clash.
        """
        size, rows = len(self.lower), len(self.matrix)
        finite = [np.isfinite(self.row_upper), np.isfinite(self.row_lower)]
        column = np.ones((rows, 1))
        over = np.hstack([self.matrix, -column])[finite[0]]
        under = np.hstack([self.matrix, column])[finite[1]]
        count = len(over)
        solved = solve_lp(
            np.append(np.zeros(size), 1.0),
            np.concatenate([over, under]),
            np.concatenate([np.full(count, -np.inf), self.row_lower[finite[1]]]),
            np.concatenate([self.row_upper[finite[0]], np.full(len(under), np.inf)]),
            np.append(self.lower, 0.0),
            np.append(self.upper, np.inf),
        )
        if solved is None:
            return None
        multipliers = np.zeros(rows)
        multipliers[finite[0]] += np.maximum(solved.multipliers[:count], 0.0)
        multipliers[finite[1]] += np.minimum(solved.multipliers[count:], 0.0)
        multipliers[np.abs(multipliers) < 1e-9 * np.abs(multipliers).max(initial=0.0)] = 0.0
        return multipliers if self.radius(multipliers) >= PROOF_RADIUS else None


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), np.abs(values), 0.0)
