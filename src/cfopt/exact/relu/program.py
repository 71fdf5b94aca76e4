"""The nearest change of a network's convex relaxation, with the multipliers that bound it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import daqp
import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry import Largest
from cfopt.exact.geometry.highs import solve_program
from cfopt.exact.relu.region import Region
from cfopt.exact.relu.relaxation import Inequalities, Intervals, Multipliers, Network

#: DAQP's infinity.
_OPEN = 1e30
#: The curvature that makes DAQP's programs strictly convex in the neurons, beside 2 for u.
_CURVATURE = 1e-6
#: By how much DAQP may break a row of norm 1.
_PRIMAL = 1e-9
#: What breaking every row by one costs where nothing meets them all.
_BREACH = 1e6


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation says of a region.

    Arguments:
        u: its nearest change, `(p,)`; None if there is none.
        active: what it takes each unstable neuron to give there; an array for each layer.
        multipliers: the multipliers that combine it to one plane.
    """

    u: Array | None
    active: tuple[Array, ...]
    multipliers: Multipliers


def relax(
    network: Network, intervals: Intervals, region: Region, known: Inequalities
) -> Relaxed | None:
    """Solve the relaxation: each unstable neuron is between its lines; None if solvers fail."""
    rows = _Rows(network, intervals, known)
    if region.euclidean:
        found = rows.by_daqp(region)
    else:
        found = rows.largest(region) if isinstance(region.norm, Largest) else rows.total(region)
    found = rows.clash(region) if found is None else found
    if found is None:
        return None
    values, row_multipliers, bound_multipliers = found
    return rows.read(values, row_multipliers, bound_multipliers)


class _Rows:
    """The relaxation as limits on u and on one variable for each unstable neuron."""

    def __init__(self, network: Network, intervals: Intervals, known: Inequalities) -> None:
        self._widths = network.widths
        self._size = network.weights[0].shape[1]
        self._unstable = [np.flatnonzero(intervals.unstable(k)) for k in range(len(self._widths))]
        count = sum(map(len, self._unstable))
        self._total = self._size + count
        self._most = np.empty(count)
        matrix: list[Array] = []
        lower: list[Array] = []
        upper: list[Array] = []
        active, constant = np.eye(self._size, self._total), np.zeros(self._size)
        start = self._size
        for layer, which in enumerate(self._unstable):
            z = network.weights[layer] @ active
            shift = network.weights[layer] @ constant + network.biases[layer]
            low, high = intervals.lower[layer], intervals.upper[layer]
            matrix.append(z)
            lower.append(low - shift)
            upper.append(high - shift)
            on = (low >= 0).astype(np.float64)
            active, constant = z * on[:, None], shift * on
            own = np.arange(start, start + len(which))
            units = np.zeros((len(which), self._total))
            units[np.arange(len(which)), own] = 1.0
            active[which], constant[which] = units, 0.0
            self._most[own - self._size] = high[which]
            # Above the line z, and below the chord.
            matrix.append(z[which] - units)
            upper.append(-shift[which])
            lower.append(np.full(len(which), -np.inf))
            with np.errstate(invalid="ignore"):
                chord = np.where(
                    np.isfinite(high[which] - low[which]),
                    high[which] / (high[which] - low[which]),
                    0.0,
                )
            known_chord = chord > 0
            matrix.append(units - chord[:, None] * z[which])
            limit = chord * (shift[which] - np.where(known_chord, low[which], 0.0))
            upper.append(np.where(known_chord, limit, np.inf))
            lower.append(np.full(len(which), -np.inf))
            start += len(which)
        weights = known.directions @ network.weights[-1]
        matrix.append(weights @ active)
        upper.append(known.leeway - known.directions @ network.biases[-1] - weights @ constant)
        lower.append(np.full(len(weights), -np.inf))
        matrix.append(np.pad(known.sums, ((0, 0), (0, count))))
        lower.append(known.least)
        upper.append(known.most)
        self._counts = [len(part) for part in matrix]
        self.matrix = np.concatenate(matrix)
        self.lower, self.upper = np.concatenate(lower), np.concatenate(upper)
        size = np.sqrt(np.square(self.matrix).sum(axis=1))
        self._length = np.where(size > 0, size, 1.0)

    def _bounds(self, region: Region) -> tuple[Array, Array]:
        count = self._total - self._size
        lower = np.concatenate([region.lower, np.zeros(count)])
        return lower, np.concatenate([region.upper, np.full(count, np.inf)])

    def _program(self, region: Region) -> tuple[Array, Array, Array, Array]:
        """Curvature, rows of norm 1, and the limits of all variables, then of the rows."""
        lower, upper = self._bounds(region)
        curvature = np.full(self._total, _CURVATURE)
        curvature[: self._size] = 2.0
        rows = np.ascontiguousarray(self.matrix / self._length[:, None])
        low = np.concatenate([lower, self.lower / self._length])
        high = np.concatenate([upper, self.upper / self._length])
        return curvature, rows, np.clip(low, -_OPEN, _OPEN), np.clip(high, -_OPEN, _OPEN)

    def by_daqp(self, region: Region) -> tuple[Array | None, Array, Array] | None:
        """`min |u|^2`."""
        curvature, rows, low, high = self._program(region)
        values, _, flag, info = daqp.solve(
            np.diag(curvature), np.zeros(self._total), rows, high, low, primal_tol=_PRIMAL
        )
        found = np.asarray(info["lam"])
        if flag <= 0 or not np.isfinite(found).all():
            return None
        return np.asarray(values), found[self._total :] / self._length, found[: self._total]

    def clash(self, region: Region) -> tuple[Array | None, Array, Array] | None:
        """The multipliers of a clash: the program in which all rows may be broken, at a price."""
        curvature, rows, low, high = self._program(region)
        total = self._total
        above, below = (np.flatnonzero(np.abs(end[total:]) < _OPEN) for end in (high, low))
        slack = np.ones((len(rows), 1))
        matrix = np.concatenate([np.hstack([rows, -slack])[above], np.hstack([rows, slack])[below]])
        unlimited = np.full(len(matrix), _OPEN)
        most, least = unlimited.copy(), -unlimited
        most[: len(above)] = high[total:][above]
        least[len(above) :] = low[total:][below]
        upper = np.concatenate([high[:total], [_OPEN], most])
        lower = np.concatenate([low[:total], [0.0], least])
        _, _, flag, info = daqp.solve(
            np.diag(np.append(curvature, _CURVATURE)),
            np.append(np.zeros(total), _BREACH),
            np.ascontiguousarray(matrix),
            upper,
            lower,
            primal_tol=_PRIMAL,
        )
        found = np.asarray(info["lam"])
        if flag <= 0 or not np.isfinite(found).all():
            # DAQP gives up on some degenerate programs; the linear one is all that is needed.
            lower, upper = (
                np.where(np.abs(end) < _OPEN, end, np.copysign(np.inf, end))
                for end in (lower, upper)
            )
            costs = np.append(np.zeros(total), 1.0)
            limits = (
                lower[total + 1 :],
                upper[total + 1 :],
                lower[: total + 1],
                upper[: total + 1],
            )
            linear = solve_program(costs, matrix, *limits)
            if linear is None:
                return None
            reduced = costs + linear.multipliers @ matrix
            found = np.concatenate([-reduced, linear.multipliers])
        multipliers = np.zeros(len(rows))
        own = found[total + 1 :]
        multipliers[above] += np.maximum(own[: len(above)], 0.0)
        multipliers[below] += np.minimum(own[len(above) :], 0.0)
        return None, multipliers / self._length, found[:total]

    def total(self, region: Region) -> tuple[Array | None, Array, Array] | None:
        """`min |u|_1` by HiGHS, with u split into what it adds and what it takes away."""
        lower, upper = self._bounds(region)
        size = self._size
        first = self.matrix[:, :size]
        matrix = np.hstack([self.matrix, -first])
        low = np.concatenate([lower, (-upper[:size]).clip(min=0.0)])
        high = np.concatenate([upper, (-lower[:size]).clip(min=0.0)])
        low[:size], high[:size] = low[:size].clip(min=0.0), high[:size].clip(min=0.0)
        costs = np.zeros(matrix.shape[1])
        costs[:size] = costs[self._total :] = 1.0
        found = solve_program(costs, matrix, self.lower, self.upper, low, high)
        if found is None:
            return None
        values = found.values[: self._total].copy()
        values[:size] -= found.values[self._total :]
        reduced = costs + found.multipliers @ matrix
        return values, found.multipliers, -reduced[: self._total]

    def largest(self, region: Region) -> tuple[Array | None, Array, Array] | None:
        """`min max |u_j|` by HiGHS, with one more variable t, and `-t <= u_j <= t`."""
        lower, upper = self._bounds(region)
        size, count = self._size, len(self.matrix)
        unit, column, endless = np.eye(size, self._total), np.ones((size, 1)), np.full(size, np.inf)
        found = solve_program(
            np.append(np.zeros(self._total), 1.0),
            np.block([[self.matrix, np.zeros((count, 1))], [unit, -column], [unit, column]]),
            np.concatenate([self.lower, -endless, np.zeros(size)]),
            np.concatenate([self.upper, np.zeros(size), endless]),
            np.append(lower, 0.0),
            np.append(upper, np.inf),
        )
        if found is None:
            return None
        multipliers = found.multipliers[:count]
        return found.values[: self._total], multipliers, -(multipliers @ self.matrix)

    def read(self, values: Array | None, rows: Array, bounds: Array) -> Relaxed:
        """Multipliers by neuron, and what each unstable one gives."""
        ends = np.cumsum([0, *self._counts])
        parts = [rows[a:b] for a, b in pairwise(ends)]
        slopes, sides, active = [], [], []
        start = self._size
        for layer, which in enumerate(self._unstable):
            side, line, _ = parts[3 * layer : 3 * layer + 3]
            sides.append(side)
            zero = -np.minimum(bounds[start : start + len(which)], 0.0)
            line = np.maximum(line, 0.0)
            slope = np.zeros(self._widths[layer])
            with np.errstate(invalid="ignore"):
                share = line / (line + zero)
            slope[which] = np.nan_to_num(share, nan=0.5)
            slopes.append(slope)
            gives = np.full(self._widths[layer], np.nan)
            if values is not None:
                gives[which] = values[start : start + len(which)]
            active.append(gives)
            start += len(which)
        multipliers = Multipliers(
            np.maximum(parts[-2], 0.0), parts[-1], tuple(slopes), tuple(sides)
        )
        u = None if values is None else values[: self._size]
        return Relaxed(u, tuple(active), multipliers)
