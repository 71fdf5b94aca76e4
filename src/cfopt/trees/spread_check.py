"""How much costs differ within the boxes of a proof, found anew without the search's own means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.arrays import Spreads
from cfopt.trees.boxes import BoxTree, directory, last_cell, leaf_boxes
from cfopt.trees.cells import Cells, thresholds_of
from cfopt.trees.check import cheapest, joined
from cfopt.trees.compiled import compiled
from cfopt.trees.ensemble import TreeEnsemble

_Ints = NDArray[np.int32]


class CheckedBoxes:
    """The boxes of a proof that are not divided.

    Arguments:
        tree: the proof's boxes, which are sound.
        ensemble: the trees.
        cells: those that the row may move to.
    """

    def __init__(self, tree: BoxTree, ensemble: TreeEnsemble, cells: Cells) -> None:
        self._ensemble, self._cells = ensemble, cells
        thresholds = thresholds_of(ensemble, cells.groups)
        count, p = len(tree), ensemble.num_features
        low = np.zeros((count, p), dtype=np.int32)
        high = np.tile(np.array([len(edges) for edges in thresholds], np.int32), (count, 1))
        at = np.zeros(count, dtype=np.int32)
        inner = tree.feature >= 0
        at[inner] = last_cell(thresholds, tree.feature[inner], tree.threshold[inner])
        level, ends = np.zeros(1, dtype=np.int64), []
        while len(level):
            divided = tree.feature[level] >= 0
            ends.append(level[~divided])
            level = level[divided]
            f, left, right = tree.feature[level], tree.left[level], tree.right[level]
            for part in (left, right):
                low[part], high[part] = low[level], high[level]
            high[left, f] = np.minimum(high[left, f], at[level])
            low[right, f] = np.maximum(low[right, f], at[level] + 1)
            level = np.concatenate([left, right]).astype(np.int64)
        kept = np.concatenate(ends)
        #: Their numbers in the tree, `(B,)`.
        self.number = kept
        #: By which inequality each is said to be refuted, -1 if by none, `(B,)`; whether it is.
        self.reason = tree.reason[kept]
        self.refuted = self.reason >= 0
        self.low, self.high = low[kept], high[kept]
        #: What each costs at least, `(B,)`, and its cell nearest to the origin, groups apart.
        self.cost, self._near = self._nearest()
        self._at = np.zeros(len(ensemble.feature), dtype=np.int32)
        nodes = ensemble.feature >= 0
        self._at[nodes] = last_cell(thresholds, ensemble.feature[nodes], ensemble.threshold[nodes])

    def references(self, rows: NDArray[np.intp]) -> Array:
        """The costs of the nearest contexts of some boxes, groups apart: `(B, n)`."""
        x = self._cells.value[self._cells.start[:-1] + self._near[rows]]
        return self._ensemble.predict(x)

    def spreads(
        self, rows: NDArray[np.intp], references: Array, weights: Array, claim: float
    ) -> Spreads:
        """How much costs differ in some of the boxes, among leaves that cost less than a claim.

        Where there are no such leaves in a tree, `least` is inf.
        """
        ensemble, cells = self._ensemble, self._cells
        leaf_low, leaf_high, _ = leaf_boxes(ensemble, cells.groups)
        found = Spreads.room(len(rows), ensemble.num_targets)
        plain_spreads(
            ensemble.roots, ensemble.feature, self._at, ensemble.left, ensemble.right,
            ensemble.targets, ensemble.values, ensemble.base, ensemble.single, leaf_low, leaf_high,
            cells.start, cells.number, cells.cost, *directory(cells), cells.largest,
            self.low[rows], self.high[rows], references, weights, claim, *found,
        )  # fmt: skip
        return found

    def _nearest(self) -> tuple[Array, NDArray[np.int64]]:
        cells, grouped = self._cells, {f for group in self._cells.groups for f in group}
        join = np.maximum if cells.largest else np.add
        cost = np.zeros(len(self.low))
        near = np.zeros(self.low.shape, dtype=np.int64)
        for f, (first, last) in enumerate(zip(cells.start[:-1], cells.start[1:], strict=True)):
            number = cells.number[first:last]
            begin = np.searchsorted(number, self.low[:, f])
            end = np.searchsorted(number, self.high[:, f], side="right") - 1
            near[:, f] = np.clip(cells.home[f], begin.clip(max=len(number) - 1), end.clip(min=0))
            if f not in grouped:
                own = np.where(begin > end, np.inf, cells.cost[first + near[:, f]])
                cost = join(cost, own)
        for group in cells.groups:
            each = np.array([self._one_of(group, chosen) for chosen in group])
            cost = join(cost, each.min(axis=0))
        return cost, near

    def _one_of(self, group: tuple[int, ...], chosen: int) -> Array:
        """What boxes cost at least where one member of a group is 1, the others 0: `(B,)`."""
        cells, total = self._cells, np.zeros(len(self.low))
        for f in group:
            own = slice(cells.start[f], cells.start[f + 1])
            fits = (cells.value[own] > 0.5) == (f == chosen)
            inside = (self.low[:, f, None] <= cells.number[own]) & (
                cells.number[own] <= self.high[:, f, None]
            )
            least = np.where(fits & inside, cells.cost[own], np.inf).min(axis=1)
            total = np.maximum(total, least) if cells.largest else total + least
        return total


@compiled
def plain_spreads(
    roots: _Ints,
    feature: _Ints,
    at: _Ints,
    left: _Ints,
    right: _Ints,
    targets: _Ints,
    values: Array,
    base: Array,
    single: bool,
    leaf_low: _Ints,
    leaf_high: _Ints,
    start: _Ints,
    number: _Ints,
    cost: Array,
    dense: _Ints,
    to: _Ints,
    largest: bool,
    lows: _Ints,
    highs: _Ints,
    references: Array,
    weights: Array,
    claim: float,
    share: Array,
    rest: Array,
    least: Array,
) -> None:
    """What `spreads` finds, by the cells of each leaf; arguments as in `least_unrefuted`."""
    p, n = lows.shape[1], len(base)
    stack = np.empty(len(feature) + 1, np.int32)
    low, high = np.empty(n), np.empty(n)
    for b in range(len(lows)):
        size = 0.0
        together = 0.0
        for j in range(n):
            size += references[b, j] ** 2
            together += references[b, j] * base[j]
        ratio = together / size if size > 0 and not single else 0.0
        share[b, 0] = share[b, 1] = ratio
        for j in range(n):
            rest[b, 0, j] = rest[b, 1, j] = base[j] - ratio * references[b, j]
        least[b] = 0.0
        for t in range(len(roots)):
            low[:], high[:] = np.inf, -np.inf
            least_share, most_share, smallest = np.inf, -np.inf, np.inf
            stack[0] = roots[t]
            waiting = 1
            while waiting > 0:
                waiting -= 1
                node = stack[waiting]
                f = feature[node]
                if f >= 0:
                    if lows[b, f] <= at[node]:
                        stack[waiting] = left[node]
                        waiting += 1
                    if highs[b, f] > at[node]:
                        stack[waiting] = right[node]
                        waiting += 1
                    continue
                leaf = left[node]
                price = 0.0
                for g in range(p):
                    first = max(lows[b, g], leaf_low[leaf, g])
                    last = min(highs[b, g], leaf_high[leaf, g])
                    least_cost = cheapest(dense, to, start, number, cost, g, first, last)
                    price = joined(price, least_cost, largest)
                if price >= claim:
                    continue
                if single:
                    j = targets[t]
                    value = values[leaf, 0]
                    low[j], high[j] = min(low[j], value), max(high[j], value)
                    smallest = min(smallest, weights[b, j] * value)
                    continue
                along = total = 0.0
                for j in range(n):
                    along += references[b, j] * values[leaf, j]
                    total += weights[b, j] * values[leaf, j]
                along = along / size if size > 0 else 0.0
                least_share, most_share = min(least_share, along), max(most_share, along)
                smallest = min(smallest, total)
                for j in range(n):
                    value = values[leaf, j] - along * references[b, j]
                    low[j], high[j] = min(low[j], value), max(high[j], value)
            least[b] += smallest
            if smallest == np.inf:
                break
            if single:
                j = targets[t]
                rest[b, 0, j] += low[j]
                rest[b, 1, j] += high[j]
                continue
            share[b, 0] += least_share
            share[b, 1] += most_share
            for j in range(n):
                rest[b, 0, j] += low[j]
                rest[b, 1, j] += high[j]
