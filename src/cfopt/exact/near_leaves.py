"""The leaves of a tree ensemble that contexts near one context reach, and boxes of their cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.engine.variation import OffBy
from cfopt.exact.exact_task import NORMS
from cfopt.exact.tree_task import TreeTask
from cfopt.trees.boxes import leaf_boxes
from cfopt.trees.cells import after, up_to

#: By what fraction distances are rounded.
_ROUNDING = 1e-9

CellNumbers = NDArray[np.int64]


class NearLeaves:
    """The leaves and cells that a ball around a context meets, by the features that matter to them.

    Boxes are the first and last cells of these features, `(..., p)`. Distances are to the power of
    the norm.

    Arguments:
        model, row: whose context it is.
        off_by: the ball.

    Attributes:
        limit: the distance up to which cells are near.
        first, last: all near cells as a box.
        values: what leaves add to each cost, tree by tree, `(L, n)`.
        base: the base, with what trees add of which one leaf is near, `(n,)`.
    """

    def __init__(self, model: TreeTask, row: int, off_by: OffBy) -> None:
        self._model, self._norm = model, NORMS[type(off_by.norm)]
        self._origin: Array = model.origin[row]
        limit = (off_by.radius * (1 + _ROUNDING)) ** self._norm.power
        self.limit = min(limit, float(np.finfo(np.float64).max))
        thresholds, ensemble = model.thresholds, model.ensemble
        pairs = zip(thresholds, self._origin, strict=True)
        self.home = np.array([np.searchsorted(own, x) for own, x in pairs], dtype=np.int64)
        self._cost = np.full((len(thresholds), max(map(len, thresholds)) + 1), np.inf)
        for f, own in enumerate(thresholds):
            # How far contexts are that round to one of the cell: these are not told from its own.
            off = np.maximum(np.append(-np.inf, up_to(own, model.dtype)) - self._origin[f], 0.0)
            off = np.maximum(off, self._origin[f] - np.append(after(own, model.dtype), np.inf))
            if (unit := off_by.units[f]) > 0:
                self._cost[f, : len(off)] = (off / unit) ** self._norm.power
        self._cost[np.arange(len(self.home)), self.home] = 0.0
        low, high, owner = (one.astype(np.int64) for one in leaf_boxes(ensemble, ()))
        near = np.flatnonzero(self.distance(low, high) <= self.limit)
        near = near[owner[near].argsort(kind="stable")]
        alone = np.bincount(owner[near])[owner[near]] == 1
        self.base: Array = ensemble.base + self._values(near[alone], owner).sum(axis=0)
        near = near[~alone]
        self._starts = np.flatnonzero(np.diff(owner[near], prepend=-1))
        self.values = self._values(near, owner)
        within = self._cost <= self.limit
        self.first = within.argmax(axis=1)
        self.last = self.first + within.sum(axis=1) - 1
        apart = (low[near] > self.first) | (high[near] < self.last)
        self._used = np.flatnonzero(apart.any(axis=0))
        self._low, self._high = low[near][:, self._used], high[near][:, self._used]
        self._cost, self.home = self._cost[self._used], self.home[self._used]
        self.first, self.last = self.first[self._used], self.last[self._used]

    def _values(self, leaves: CellNumbers, owner: CellNumbers) -> Array:
        """What leaves add to each cost: `(L,) -> (L, n)`."""
        ensemble = self._model.ensemble
        if not ensemble.single:
            return ensemble.values[leaves]
        values = np.zeros((len(leaves), ensemble.num_targets))
        values[np.arange(len(leaves)), ensemble.targets[owner[leaves]]] = ensemble.values[leaves, 0]
        return values

    def distance(self, low: CellNumbers, high: CellNumbers) -> Array:
        """How far the nearest cell of boxes is, to the power of the norm: `(..., p) -> (...)`."""
        nearest = np.minimum(np.maximum(self.home, low), high)
        costs = np.where(low > high, np.inf, self._cost[np.arange(len(self.home)), nearest])
        found: Array = costs.max(-1, initial=0.0) if self._norm.order == np.inf else costs.sum(-1)
        return found

    def length(self, cost: float) -> float:
        """The length of a distance."""
        return float(cost ** (1 / self._norm.power))

    def reached(self, low: CellNumbers, high: CellNumbers) -> NDArray[np.bool_]:
        """Which leaves the near cells of boxes reach: `(K, p), (K, p) -> (K, L)`."""
        low, high = np.maximum(low[:, None], self._low), np.minimum(high[:, None], self._high)
        reached: NDArray[np.bool_] = self.distance(low, high) <= self.limit
        return reached

    def parts(
        self, low: CellNumbers, high: CellNumbers, reached: NDArray[np.bool_]
    ) -> list[tuple[CellNumbers, CellNumbers]]:
        """Two parts of a box; none of a single cell, or of cells that no leaf tells apart.

        It is divided by the feature that most leaves compare, at the middle of their thresholds.
        """
        best = np.empty(0, dtype=np.int64)
        for f in range(len(low)):
            ends = np.append(self._low[reached, f] - 1, self._high[reached, f])
            ends = ends[(ends >= low[f]) & (ends < high[f])]
            if len(ends) > len(best):
                best, feature = ends, f
        if not len(best):
            return []
        below, above = high.copy(), low.copy()
        below[feature] = np.sort(best)[len(best) // 2]
        above[feature] = below[feature] + 1
        return [(low, below), (above, high)]

    def context(self, low: CellNumbers, high: CellNumbers) -> Array:
        """The context of a box that is nearest to the row's own: `(p,), (p,) -> (p,)`."""
        x, dtype = self._origin.copy(), self._model.dtype
        for k, f in enumerate(self._used):
            own = self._model.thresholds[f]
            if low[k] > self.home[k]:
                x[f] = after(own[low[k] - 1 : low[k]], dtype)[0]
            elif high[k] < self.home[k]:
                x[f] = up_to(own[high[k] : high[k] + 1], dtype)[0]
        return x

    def sums(
        self, scores: Array, reached: NDArray[np.bool_], extreme: np.ufunc, none: float
    ) -> Array:
        """The sum over trees of the extreme score that is reached: `(K, L, C) -> (K, C)`."""
        if not len(self._starts):
            return np.zeros((len(reached), scores.shape[2]))
        masked = np.where(reached[:, :, None], scores, none)
        found: Array = extreme.reduceat(masked, self._starts, axis=1).sum(axis=1)
        return found
