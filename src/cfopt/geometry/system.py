"""Linear limits on a change of context, and what multipliers prove about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cfopt.geometry.highs import solve_lp
from cfopt.types import Array

#: How exactly sums of products are known, as a part of their terms.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class HalfSpaces:
    """`normals @ u <= limits`, and how exactly they are known.

    Arguments:
        normals: `(C, p)`.
        limits: `(C,)`.
        rounding: by how much a limit should be undercut, so that rounding elsewhere does not break
            it, `(C,)`. Solutions respect it where they can; proofs do without.
        doubt: to within what the limits are known, `(C,)`.
        grain: to within what the entries of the normals are known, `(C,)`.
    """

    normals: Array
    limits: Array
    rounding: Array
    doubt: Array
    grain: Array


@dataclass(frozen=True)
class System:
    """`lower <= u <= upper` and `row_lower <= matrix @ u <= row_upper`, for a change u.

    Multipliers have one entry for each row: > 0 for its upper limit, < 0 for its lower one. The
    bounds on u need none, since a linear or separable function is minimised over a box directly.

    Arguments:
        lower, upper: `(p,)`.
        matrix: `(k, p)`.
        row_lower, row_upper: `(k,)`.
        rounding, doubt, grain: as in `HalfSpaces`, `(k,)`.
    """

    lower: Array
    upper: Array
    matrix: Array
    row_lower: Array
    row_upper: Array
    rounding: Array
    doubt: Array
    grain: Array

    @classmethod
    def box(cls, lower: Array, upper: Array) -> System:
        """Bounds alone."""
        return cls(lower, upper, np.empty((0, len(lower))), *[np.empty(0)] * 5)

    def with_rows(self, matrix: Array, row_lower: Array, row_upper: Array) -> System:
        """The system with more limits on sums, known exactly."""
        return self._with(matrix, row_lower, row_upper, *[np.zeros(len(matrix))] * 3)

    def with_cuts(self, cuts: HalfSpaces) -> System:
        """The system with more half-spaces."""
        below = np.full(len(cuts.limits), -np.inf)
        more = (cuts.rounding, cuts.doubt, cuts.grain)
        return self._with(cuts.normals, below, cuts.limits, *more)

    def _with(self, matrix: Array, *rows: Array) -> System:
        """More rows, each scaled to norm 1 (0 stays 0)."""
        norm = np.linalg.norm(matrix, axis=1)
        norm[norm == 0] = 1.0
        names = ("row_lower", "row_upper", "rounding", "doubt", "grain")
        columns = {
            name: np.concatenate([getattr(self, name), values / norm])
            for name, values in zip(names, rows, strict=True)
        }
        matrix = np.concatenate([self.matrix, matrix / norm[:, None]])
        return System(self.lower, self.upper, matrix, **columns)

    def scaled(self, unit: float) -> System:
        """The same for `u / unit`."""
        names = ("lower", "upper", "row_lower", "row_upper", "rounding", "doubt")
        return replace(self, **{name: getattr(self, name) / unit for name in names})

    def reach(self) -> float:
        """How far the most distant of the limits is from u = 0; 1 if none is broken there."""
        distance = max(
            float(part.max(initial=0.0))
            for part in (self.lower, -self.upper, self.row_lower, -self.row_upper)
        )
        return distance if distance > 0 else 1.0

    def tightened(self) -> System:
        """The system whose solutions keep off their upper limits by the rounding."""
        if not self.rounding.any():
            return self
        return replace(self, row_upper=self.row_upper - self.rounding)

    def within(self, lower: Array, upper: Array) -> System:
        """The system with other bounds."""
        return replace(self, lower=lower, upper=upper)

    def breach(self, u: Array) -> float:
        """By how much u breaks the worst of the limits; 0 or less if none."""
        value = self.matrix @ u
        parts = (self.lower - u, u - self.upper, self.row_lower - value, value - self.row_upper)
        return max(float(part.max(initial=-np.inf)) for part in parts)

    def combine(self, multipliers: Array) -> tuple[Array, float]:
        """One inequality that follows from the rows: `g @ u <= c`.

        Whatever the multipliers are it does follow: those on a limit that is not there are dropped.
        """
        above = np.maximum(multipliers, 0.0) * self._closed[0]
        below = np.maximum(-multipliers, 0.0) * self._closed[1]
        upper, lower = self._ends
        return (above - below) @ self.matrix, float(above @ upper - below @ lower)

    @cached_property
    def _closed(self) -> tuple[Array, Array]:
        """1 for each upper and lower limit of a row that is there, 0 for the others."""
        return np.isfinite(self.row_upper) * 1.0, np.isfinite(self.row_lower) * 1.0

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """The upper and lower limits, 0 where there is none."""
        return (
            np.where(self._closed[0] > 0, self.row_upper, 0.0),
            np.where(self._closed[1] > 0, self.row_lower, 0.0),
        )

    def radius(self, multipliers: Array) -> float:
        """Within which distance of u = 0 the multipliers prove that nothing satisfies the system.

        With `g @ u <= c` for all solutions: where the bounds are finite, g u has a least value;
        along the others it falls by at most `|g| |u|`. 0 proves nothing.
        """
        excess, slope, _ = self._excess(multipliers)
        return 0.0 if excess <= 0 else np.inf if slope == 0 else excess / slope

    def refutes(self, multipliers: Array) -> bool:
        """Whether the multipliers prove that nothing at all satisfies the system.

        That is, g vanishes along open ends as far as it is known.
        """
        excess, _, vanishes = self._excess(multipliers)
        return excess > 0 and vanishes

    def _excess(self, multipliers: Array) -> tuple[float, float, bool]:
        """By how much `g @ u <= c` is broken by closed ends, and how g goes on along open ones."""
        g, c = self.combine(multipliers)
        side = np.where(g > 0, self.lower, self.upper)
        open_ended = ~np.isfinite(side)
        end = np.where(open_ended, 0.0, side)
        weight = np.abs(multipliers)
        # Rounding must not pass for an excess.
        limits = np.maximum(np.abs(self._ends[0]), np.abs(self._ends[1]))
        noise = weight @ (_ROUNDING * limits + self.doubt) + _ROUNDING * np.abs(g) @ np.abs(end)
        excess = float(g @ end - c - noise)
        slope = np.abs(g[open_ended])
        vanishes = bool((slope <= weight @ (self.grain + _ROUNDING)).all())
        return excess, float(np.linalg.norm(slope)), vanishes

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
        for candidate in (multipliers, self._refined(multipliers)):
            if self.refutes(candidate):
                return candidate
        return None

    def _refined(self, multipliers: Array) -> Array:
        """The multipliers of the same rows for which g vanishes as exactly as it can."""
        used = np.flatnonzero(multipliers)
        free = np.isinf(self.lower) & np.isinf(self.upper)
        equations = np.concatenate([self.matrix[used][:, free].T, np.sign(multipliers[[used]])])
        target = np.append(np.zeros(int(free.sum())), np.abs(multipliers).sum())
        refined = multipliers.copy()
        refined[used] = np.linalg.lstsq(equations, target, rcond=None)[0]
        return np.where(refined * multipliers > 0, refined, 0.0)
