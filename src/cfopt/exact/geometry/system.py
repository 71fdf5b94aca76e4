"""Linear limits on a change of context, and what multipliers prove about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.exact.geometry.half_spaces import HalfSpaces, Leeway
from cfopt.exact.geometry.support import Support

#: How exactly sums of products are known, as a fraction of their terms.
ROUNDING = 1e-13
#: A clash proves that there is no solution only if it exceeds what the rows may be broken by this
#: many times: the leeway grows with the change, and would overtake a smaller one not far away.
FAR = 100.0


@dataclass(frozen=True)
class System:
    """`lower <= u <= upper` and `row_lower <= matrix @ u <= row_upper`, for a change u.

    Multipliers have one entry for each row: > 0 for its upper limit, < 0 for its lower one. The
    bounds on u need none, since a linear or separable function is minimised over a box directly.

    Arguments:
        lower, upper: `(p,)`.
        matrix: `(k, p)`; each row has norm 1, or is 0.
        rows: row_lower, row_upper, and rounding, doubt and grain as in `HalfSpaces`, `(5, k)`.
        plain: whether there are half-spaces only: no bounds, no lower limits.
        leeway: the most by which rows may be broken all the same, if at all.
        support: which entries of u may differ from 0 together, if that is limited.
    """

    lower: Array
    upper: Array
    matrix: Array
    rows: Array
    plain: bool
    leeway: Leeway | None = None
    support: Support | None = None

    @classmethod
    def box(cls, lower: Array, upper: Array) -> System:
        """Bounds alone."""
        plain = not (np.isfinite(lower).any() or np.isfinite(upper).any())
        return cls(lower, upper, np.empty((0, len(lower))), np.empty((5, 0)), plain)

    def with_rows(self, matrix: Array, row_lower: Array, row_upper: Array) -> System:
        """The system with more limits on sums, known exactly."""
        exact = np.zeros(len(matrix))
        rows = np.stack([row_lower, row_upper, exact, exact, exact])
        return self._with(matrix, rows, plain=False)

    def with_cuts(self, cuts: HalfSpaces) -> System:
        """The system with more half-spaces."""
        rows = np.empty((5, len(cuts.limits)))
        rows[0], rows[1] = -np.inf, cuts.limits
        rows[2], rows[3], rows[4] = cuts.rounding, cuts.doubt, cuts.grain
        return self._with(cuts.normals, rows, self.plain)

    def with_leeway(self, leeway: Leeway, cuts: HalfSpaces) -> System:
        """The system whose last rows, which are these cuts, may be broken."""
        norm, before = lengths(cuts.normals), len(self.matrix) - len(cuts.limits)
        constant = np.pad(leeway.constant / norm, (before, 0))
        growth = np.pad(leeway.growth / norm[:, None], ((before, 0), (0, 0)))
        return replace(self, leeway=Leeway(constant, growth))

    def _with(self, matrix: Array, rows: Array, plain: bool) -> System:
        norm = lengths(matrix)
        return System(
            self.lower,
            self.upper,
            np.concatenate([self.matrix, matrix / norm[:, None]]),
            np.concatenate([self.rows, rows / norm], axis=1),
            plain,
            support=self.support,
        )

    @property
    def row_lower(self) -> Array:
        """Lower limits of the rows, `(k,)`."""
        values: Array = self.rows[0]
        return values

    @property
    def row_upper(self) -> Array:
        """Upper limits of the rows, `(k,)`."""
        values: Array = self.rows[1]
        return values

    def scaled(self, unit: float) -> System:
        """The same for `u / unit`."""
        rows = self.rows / unit
        rows[4] = self.rows[4]
        return System(self.lower / unit, self.upper / unit, self.matrix, rows, self.plain)

    def reach(self) -> float:
        """How far the most distant of the limits is from u = 0; 1 if none is broken there."""
        if self.plain:
            return -float(self.rows[1].min(initial=0.0)) or 1.0
        distance = max(
            float(self.lower.max(initial=0.0)),
            -float(self.upper.min(initial=0.0)),
            float(self.rows[0].max(initial=0.0)),
            -float(self.rows[1].min(initial=0.0)),
        )
        return distance if distance > 0 else 1.0

    def tightened(self) -> System:
        """The system whose solutions keep off their upper limits by the rounding."""
        rows = self.rows.copy()
        rows[1] -= rows[2]
        return System(self.lower, self.upper, self.matrix, rows, self.plain)

    def within(self, lower: Array, upper: Array) -> System:
        """The system with other bounds."""
        plain = not (np.isfinite(lower).any() or np.isfinite(upper).any())
        plain = plain and bool((np.isneginf(self.rows[0]) & np.isfinite(self.rows[1])).all())
        return replace(self, lower=lower, upper=upper, plain=plain)

    def counting(self, support: Support) -> System:
        """The system with limits on which entries may differ from 0, and what follows at once."""
        system, settled = replace(self, support=support), support.settled()
        return system.holding(settled) if settled else system

    def holding(self, units: Sequence[int]) -> System:
        """The system in which some open units of its support do not change."""
        assert self.support is not None
        support = self.support.holding(units)
        if settled := support.settled():
            units, support = [*units, *settled], support.holding(settled)
        members = support.members(units)
        # Where 0 is not allowed, nothing is.
        lower = np.where(members, np.maximum(self.lower, 0.0), self.lower)
        upper = np.where(members, np.minimum(self.upper, 0.0), self.upper)
        plain = self.plain and not members.any()
        return System(lower, upper, self.matrix, self.rows, plain, self.leeway, support)

    def releasing(self, unit: int) -> System | None:
        """The system in which an open unit counts as changed; None if then nothing is left."""
        assert self.support is not None
        support = self.support.released(unit)
        return None if support is None else self.counting(support)

    def total(self, least: Array) -> float:
        """The sum of the least values of all entries, as far as they may change: `(p,)`."""
        if self.support is None:
            return float(least.sum())
        return self.support.total(least, self._nonzero)

    def breach(self, u: Array) -> float:
        """By how much u breaks the worst of the limits; 0 or less if none."""
        value = self.matrix @ u
        if self.plain:
            return float((value - self.rows[1]).max(initial=-np.inf))
        parts = (self.lower - u, u - self.upper, self.row_lower - value, value - self.row_upper)
        return max(float(part.max(initial=-np.inf)) for part in parts)

    def combine(self, multipliers: Array) -> tuple[Array, float]:
        """One inequality that follows from the rows: `g @ u <= c`.

        It follows for any multipliers: those on a limit that does not exist are dropped.
        """
        if self.plain:
            above = np.maximum(multipliers, 0.0)
            return above @ self.matrix, float(above @ self.rows[1])
        lower, upper = self._ends
        above = np.where(np.isfinite(self.rows[1]), np.maximum(multipliers, 0.0), 0.0)
        below = np.where(np.isfinite(self.rows[0]), np.maximum(-multipliers, 0.0), 0.0)
        return (above - below) @ self.matrix, float(above @ upper - below @ lower)

    def spare(self, multipliers: Array) -> tuple[Array, float]:
        """By how much the inequality of `combine` may be broken: `growth @ |u| + constant`."""
        if self.leeway is None:
            return np.zeros(len(self.lower)), 0.0
        weight = np.abs(multipliers)
        return weight @ self.leeway.growth, float(weight @ self.leeway.constant)

    @cached_property
    def held_or_free(self) -> Array | None:
        """1 for entries without bounds and 0 for those held at 0, if all are one or the other."""
        free = np.isinf(self.lower) & np.isinf(self.upper)
        held = (self.lower == 0) & (self.upper == 0)
        return free.astype(np.float64) if (free | held).all() else None

    @cached_property
    def _nonzero(self) -> NDArray[np.bool_] | None:
        """Which entries cannot be 0, `(p,)`; None if all can."""
        nonzero = (self.lower > 0) | (self.upper < 0)
        return nonzero if nonzero.any() else None

    @cached_property
    def _ends(self) -> Array:
        """The lower and upper limits of the rows, 0 where there is none, `(2, k)`."""
        return np.where(np.isfinite(self.rows[:2]), self.rows[:2], 0.0)

    def radius(self, multipliers: Array) -> float:
        """The distance of u = 0 within which the multipliers prove that there is no solution.

        With `g @ u <= c` for all solutions: where the bounds are finite, g u has a least value;
        along the others it falls by at most `|g| |u|`. 0 proves nothing.
        """
        return self.exclusion(multipliers)[0]

    def refutes(self, multipliers: Array) -> bool:
        """Whether the multipliers prove that nothing at all satisfies the system.

        That is, g vanishes along open ends as far as it is known.
        """
        return self.exclusion(multipliers)[1]

    def exclusion(self, multipliers: Array) -> tuple[float, bool]:
        """Both at once: the radius, and whether nothing at all satisfies the system."""
        excess, slope, vanishes = self._excess(multipliers)
        constant = 0.0 if self.leeway is None else self.spare(multipliers)[1]
        beyond = excess - constant
        radius = 0.0 if beyond <= 0 else np.inf if slope == 0 else beyond / slope
        return radius, excess > FAR * constant and vanishes

    def _excess(self, multipliers: Array) -> tuple[float, float, bool]:
        """By how much `g @ u <= c` is broken at least, and how that changes along open ends.

        What grows of the leeway is taken off; its constant is not.
        """
        g, c = self.combine(multipliers)
        weight = np.abs(multipliers)
        if self.leeway is None and self.plain and self.support is None:
            # Nothing is closed, and nothing grows.
            noise = float(weight @ (ROUNDING * np.abs(self.rows[1]) + self.rows[3]))
            vanishes = bool((np.abs(g) <= weight @ (self.rows[4] + ROUNDING)).all())
            return -c - noise, float(np.sqrt(g @ g)), vanishes
        growth, _ = self.spare(multipliers)
        falls = [g + growth, growth - g]  # how fast `g u - growth |u|` falls below and above 0
        ends = [self.lower, self.upper]
        least, slope = np.full_like(g, np.inf), np.zeros_like(g)
        nearest = np.minimum(np.maximum(0.0, self.lower), self.upper)
        for fall, end in zip(falls, ends, strict=True):
            finite = np.isfinite(end)
            closed = np.where(finite, end, nearest)
            least = np.minimum(least, g * closed - growth * np.abs(closed))
            slope = np.maximum(slope, np.where(finite, 0.0, fall))
        # Rounding must not pass for an excess.
        limits = np.abs(self._ends).max(axis=0)
        noise = weight @ (ROUNDING * limits + self.rows[3]) + ROUNDING * np.abs(least).sum()
        excess = self.total(least) - c - float(noise)
        open_ended = ~np.isfinite(np.where(g > 0, self.lower, self.upper))
        vanishes = bool((np.abs(g[open_ended]) <= weight @ (self.rows[4] + ROUNDING)).all())
        return excess, float(np.sqrt(slope @ slope)), vanishes


def lengths(matrix: Array) -> Array:
    """The divisors that give rows norm 1, `(k, p) -> (k,)`; 1 where they are 0."""
    norm: Array = np.sqrt(np.square(matrix).sum(axis=1))
    norm[norm == 0] = 1.0
    return norm
