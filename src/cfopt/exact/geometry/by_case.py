"""The cheapest change where the sets of entries that may change together can all be listed."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry.daqp import Refutation, nearest_by_daqp
from cfopt.exact.geometry.nearest import Nearest
from cfopt.exact.geometry.norm import Norm
from cfopt.exact.geometry.norms import Euclidean
from cfopt.exact.geometry.system import System
from cfopt.exact.geometry.tree import Cases, Grid, best_multiple, case_bounds

#: By what fraction of the cost an answer may be above its bound.
_GAP = 1e-9
#: How far, at most, a solver's answer may break a limit: rows have norm 1.
_BREACH = 1e-7


class ByCase:
    """Looks at every case of a support, the one with the least bound first.

    Any two cuts bound the cost of all cases in a few array operations, cut by cut as they come. The
    cheapest change of a case is computed only while its bound is the least, and stays the cheapest
    as long as it meets the cuts that come later.

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
        bound = float(self._bounds.min())
        if best is None:
            return None
        return Nearest(best, min(bound, _cost(best)), Cases(self._multipliers))

    def _grow(self, system: System) -> None:
        """Reckon with new cuts: each alone, and together with each of the others."""
        known, count = self._multipliers.shape[1], len(system.matrix)
        if known == count:
            return
        before, self._multipliers = self._multipliers, np.zeros((len(self._cases), count))
        self._multipliers[:, :known] = before
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
        limits = (system.row_upper - system.rows[2])[known:]
        self._points = {
            k: u for k, u in self._points.items() if (system.matrix[known:] @ u <= limits).all()
        }

    def _look(self, system: System, case: int) -> bool:
        """Find the cheapest change of a case; return whether its bound is then as high."""
        may = self._cases[case] > 0
        matrix, rows = np.ascontiguousarray(system.matrix[:, may]), system.tightened().rows
        hopeless = ~matrix.any(axis=1) & (rows[1] < 0)
        free = np.full(matrix.shape[1], np.inf)
        found = (
            Refutation(hopeless.astype(np.float64))
            if hopeless.any()
            else nearest_by_daqp(System(-free, free, matrix, rows, plain=True))
        )
        if len(found.multipliers) != len(matrix) or not np.isfinite(found.multipliers).all():
            return False
        weights = best_multiple(system, self._cases[case], found.multipliers)
        bound = float(case_bounds(system, self._cases[case : case + 1], weights[None])[0])
        raised = bool(bound > self._bounds[case])
        if raised:
            self._bounds[case], self._multipliers[case] = bound, weights
        if isinstance(found, Refutation):
            return raised
        u = np.zeros(len(may))
        u[may] = found.values
        cost, size = float(u @ u), max(1.0, float(np.abs(u).max(initial=0.0)))
        self._points[case] = u
        return cost - bound <= _GAP * cost and system.breach(u) <= _BREACH * size


def _cost(u: Array | None) -> float:
    """`|u|^2`; inf without a change."""
    return np.inf if u is None else float(u @ u)
