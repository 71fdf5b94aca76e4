"""The cheapest change where the sets of entries that may change together can all be listed."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.daqp import Refutation, nearest_by_daqp_within
from cfopt.exact.geometry.nearest import Nearest
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.norms import Euclidean
from cfopt.exact.geometry.system import System
from cfopt.exact.geometry.tree import Cases, Grid, best_multiple, case_exclusions

#: By what fraction of the cost an answer may be above its bound.
_GAP = 1e-9
#: How far, at most, a solver's answer may break a limit: rows have norm 1.
_BREACH = 1e-7
#: Up to how many cases it takes less time to look at each than to reckon with pairs of cuts.
_FEW = 4
#: What |g|^2 counts as at the least, where it is divided by.
_TINY = 1e-300


class ByCase:
    """Looks at every case of a support, the one with the least bound first.

    Cuts bound the cost of all cases in a few array operations as they come, any two of them
    together where there are many cases. The cheapest change of a case is computed only while its
    bound is the least, and stays the cheapest as long as it meets the cuts that come later.

    Arguments:
        system: limits for which `serves` is true.
    """

    def __init__(self, system: System) -> None:
        assert system.support is not None
        assert system.support.cases is not None
        assert system.held_or_free is not None
        self._cases: Array = system.support.cases * system.held_or_free  # (H, p)
        self._bounds: Array = np.zeros(len(self._cases))
        self._multipliers: Array = np.zeros((len(self._cases), 0))
        #: The cheapest changes of some cases.
        self._points: dict[int, Array] = {}

    @staticmethod
    def serves(system: System, norm: Norm, grid: Grid | None) -> bool:
        """Whether nothing but cuts and the support limits a change, and its cases are listed."""
        support = system.support
        return (
            isinstance(norm, Euclidean)
            and grid is None
            and support is not None
            and support.cases is not None
            and system.held_or_free is not None
            and bool(np.isneginf(system.row_lower).all())
        )

    def solve(self, system: System) -> Nearest | None:
        """The cheapest change of a system that has grown by cuts; None if it is not found."""
        self._grow(system)
        best = min(self._points.values(), key=_cost, default=None)
        while self._bounds[least := int(self._bounds.argmin())] < (1 - _GAP) * _cost(best):
            if least in self._points or not self._look(system, least):
                return None
            best = min(best, self._points.get(least), key=_cost)
        if best is None and _hopeless(system):
            return None  # whatever may change: other means find what clashes
        # Without a change, each case was refuted.
        bound = min(float(self._bounds.min()), _cost(best))
        return Nearest(best, bound, Cases(self._multipliers))

    def _grow(self, system: System) -> None:
        """Reckon with new cuts: each together with each of the others, or, in few cases, alone."""
        known, count = self._multipliers.shape[1], len(system.matrix)
        if known == count:
            return
        before, self._multipliers = self._multipliers, np.zeros((len(self._cases), count))
        self._multipliers[:, :known] = before
        if len(self._cases) > _FEW:
            self._reckon_in_pairs(system, known)
        else:
            self._reckon_alone(system, known)
        limits = (system.row_upper - system.rows[2])[known:]
        self._points = {
            k: u for k, u in self._points.items() if (system.matrix[known:] @ u <= limits).all()
        }

    def _reckon_in_pairs(self, system: System, known: int) -> None:
        """Raise bounds by each new cut alone, and together with each of the others."""
        count = len(system.matrix)
        pairs = np.array(
            [(new, other) for new in range(known, count) for other in range(new + 1)]
        ).T
        excess, normals = -system.row_upper[pairs], system.matrix[pairs]
        cost, weights = Euclidean().to_both(excess, normals, self._cases)  # (K, H), (2, K, H)
        best = cost.argmax(axis=0)
        better = np.flatnonzero(cost[best, np.arange(len(best))] > self._bounds)
        best = best[better]
        self._bounds[better] = cost[best, better]
        self._multipliers[better] = 0.0
        for which, weight in zip(pairs[:, best], weights[:, best, better], strict=True):
            self._multipliers[better, which] += 2 * weight

    def _reckon_alone(self, system: System, known: int) -> None:
        """Raise bounds by each new cut: `e^2 / |g|^2`, with multipliers `2 e / |g|^2`."""
        excess = np.maximum(-system.row_upper[known:], 0.0)
        steepness = np.square(system.matrix[known:]) @ self._cases.T  # (K, H)
        weights = np.where(steepness > 0, excess[:, None] / np.maximum(steepness, _TINY), 0.0)
        cost = weights * excess[:, None]
        best = cost.argmax(axis=0)
        for case, new in enumerate(best.tolist()):
            if cost[new, case] > self._bounds[case]:
                self._bounds[case] = cost[new, case]
                self._multipliers[case] = 0.0
                self._multipliers[case, known + new] = 2 * weights[new, case]

    def _look(self, system: System, case: int) -> bool:
        """Find the cheapest change of a case; return whether its bound is then as high."""
        one = self._cases[case]
        may = one > 0
        matrix = np.ascontiguousarray(system.matrix[:, may])
        limits = system.row_upper - system.rows[2]
        hopeless = ~matrix.any(axis=1) & (limits < 0)
        found = (
            Refutation(hopeless.astype(np.float64))
            if hopeless.any()
            else nearest_by_daqp_within(matrix, limits)
        )
        if len(found.multipliers) != len(matrix) or not np.isfinite(found.multipliers).all():
            return False
        weights, bound = best_multiple(system, one, found.multipliers)
        if isinstance(found, Refutation):
            if not case_exclusions(system, one[None], weights[None])[1][0]:
                return False
            self._bounds[case], self._multipliers[case] = np.inf, weights
            return True
        if bound > self._bounds[case]:
            self._bounds[case], self._multipliers[case] = bound, weights
        u = np.zeros(len(may))
        u[may] = found.values
        cost, size = float(u @ u), max(1.0, float(np.abs(found.values).max(initial=0.0)))
        self._points[case] = u
        breach = float((matrix @ found.values - system.row_upper).max(initial=0.0))
        return cost - bound <= _GAP * cost and breach <= _BREACH * size


def _hopeless(system: System) -> bool:
    """Whether nothing meets the cuts even if all that is not held may change."""
    assert system.held_or_free is not None
    matrix = np.ascontiguousarray(system.matrix * system.held_or_free)
    return isinstance(nearest_by_daqp_within(matrix, system.row_upper), Refutation)


def _cost(u: Array | None) -> float:
    """`|u|^2`; inf without a change."""
    return np.inf if u is None else float(u @ u)
