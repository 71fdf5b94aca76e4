"""Limits on weighted sums of features behind trees: the nearest allowed context of a box.

Boxes of cells know nothing of sums of features; what they cost without these limits is a bound
that holds with them. Where the nearest context of a box is not allowed, a small quadratic or linear
program finds the one that is, with multipliers that prove its distance.
"""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry import Grid, Master, Nearest, Norm, System, Tree
from cfopt.exact.geometry import proved_bound as multipliers_prove
from cfopt.question.domain import Domain
from cfopt.trees.boxes import BoxTree
from cfopt.trees.cells import after, up_to

#: By what fraction of its terms a sum may exceed a limit because of rounding.
_ROUNDING = 1e-9


class TreeLimits:
    """The limits of one row.

    Arguments:
        domain: what the rows of a task may be.
        row: the row.
        origin: its context, `(p,)`.
        units: the scale of each feature, `(p,)`.
        norm: what the scaled change costs.
        dtype: the dtype of contexts.
    """

    def __init__(
        self,
        domain: Domain,
        row: int,
        origin: Array,
        units: Array,
        norm: Norm,
        dtype: np.dtype[np.floating],
    ) -> None:
        self._origin, self._units, self._dtype = origin, units, dtype
        self._norm = norm
        self._lower = np.minimum(domain.lower[row].double().cpu().numpy(), origin)
        self._upper = np.maximum(domain.upper[row].double().cpu().numpy(), origin)
        self._matrix, self._least, self._most = domain.sums()
        self._grid = Grid(origin, units, domain.limits.integer) if domain.discrete else None

    def allow(self, x: Array) -> bool:
        """Whether a context keeps the limits on sums: `(p,) -> bool`."""
        sums, slack = self._matrix @ x, _ROUNDING * (np.abs(self._matrix) @ np.abs(x) + 1.0)
        return bool((sums >= self._least - slack).all() and (sums <= self._most + slack).all())

    def nearest(self, lower: Array, upper: Array) -> Nearest:
        """The least change of the row within bounds on its features, `(p,)` each, and limits."""
        return Master(self._system(lower, upper), self._norm, self._grid).solve()

    def context(self, change: Array) -> Array:
        """The context after a change, whole numbers made whole: `(p,) -> (p,)`."""
        x: Array = np.where(change == 0, self._origin, self._origin + self._units * change)
        if self._grid is not None:
            x = np.where(self._grid.integer, np.round(x), x)
        return x.astype(self._dtype).astype(np.float64)

    def floors(self, boxes: BoxTree, trees: dict[int, Tree]) -> Array:
        """What boxes cost at least by the multipliers that are given for some of them: `(N,)`."""
        found = np.zeros(len(boxes))
        parent = np.full(len(boxes), -1)
        inner = np.flatnonzero(boxes.feature >= 0)
        for side in (boxes.left, boxes.right):
            parent[side[inner]] = inner
        for node, tree in trees.items():
            lower, upper = np.full_like(self._origin, -np.inf), np.full_like(self._origin, np.inf)
            child, above = node, int(parent[node])
            while above >= 0:
                f, threshold = int(boxes.feature[above]), boxes.threshold[above : above + 1]
                if child == boxes.left[above]:
                    upper[f] = min(upper[f], float(up_to(threshold, self._dtype)[0]))
                if child == boxes.right[above]:
                    lower[f] = max(lower[f], float(after(threshold, self._dtype)[0]))
                child, above = above, int(parent[above])
            found[node] = multipliers_prove(
                self._system(lower, upper), self._norm, tree, self._grid
            )
        return found

    def _system(self, lower: Array, upper: Array) -> System:
        low, high = np.maximum(self._lower, lower), np.minimum(self._upper, upper)
        if self._grid is not None:  # whole numbers, or the origin, whatever rounding says
            inside = (low <= self._origin) & (self._origin <= high)
            first, last = np.ceil(low), np.floor(high)
            first = np.where(inside, np.minimum(first, self._origin), first)
            last = np.where(inside, np.maximum(last, self._origin), last)
            low = np.where(self._grid.integer, first, low)
            high = np.where(self._grid.integer, last, high)
        system = System.box((low - self._origin) / self._units, (high - self._origin) / self._units)
        here = self._matrix @ self._origin
        # Rounding must not exclude the origin, which is allowed.
        least, most = np.minimum(self._least - here, 0.0), np.maximum(self._most - here, 0.0)
        return system.with_rows(self._matrix * self._units, least, most)
