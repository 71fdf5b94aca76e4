"""The check of a tree of boxes once more, in plain NumPy: slow, short, and with nothing shared.

Where the compiled check counts cells by numbers, this one asks of every allowed value whether it
meets the comparisons of a box or leaf. It is there to be read, and to be compared with.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.boxes import BoxTree
from cfopt.trees.cells import Cells
from cfopt.trees.ensemble import TreeEnsemble

#: Which allowed values are in a box, feature after feature, `(C,)`; or in each of several boxes.
_Inside = NDArray[np.bool_]


def plainly_proved(
    tree: BoxTree,
    claim: float,
    ensemble: TreeEnsemble,
    cells: Cells,
    weights: Array,
    limits: Array,
    floors: Array,
) -> float:
    """What `proved` says, with the same arguments."""
    return _Check(tree, claim, ensemble, cells, weights, limits).least_unrefuted(floors)


class _Check:
    """A proof, and all leaves of the ensemble with the values that reach them."""

    def __init__(
        self,
        tree: BoxTree,
        claim: float,
        ensemble: TreeEnsemble,
        cells: Cells,
        weights: Array,
        limits: Array,
    ) -> None:
        self.tree, self.claim, self.cells, self.limits = tree, claim, cells, limits
        self.feature_of = np.repeat(np.arange(ensemble.num_features), np.diff(cells.start))
        reached: list[_Inside] = []
        owners: list[int] = []
        scores: list[Array] = []
        for number, root in enumerate(ensemble.roots.tolist()):
            target = int(ensemble.targets[number])
            waiting = [(root, np.ones(len(cells.value), dtype=bool))]
            while waiting:
                node, inside = waiting.pop()
                f = int(ensemble.feature[node])
                if f >= 0:
                    low, high = self._parts(inside, f, float(ensemble.threshold[node]))
                    waiting += [(int(ensemble.left[node]), low), (int(ensemble.right[node]), high)]
                    continue
                value = ensemble.values[ensemble.left[node]]
                reached.append(inside)
                owners.append(number)
                scores.append(weights @ value if target < 0 else weights[:, target] * value[0])
        self.reached, self.owners, self.scores = np.array(reached), owners, np.array(scores)

    def _parts(self, inside: _Inside, f: int, threshold: float) -> tuple[_Inside, _Inside]:
        """The values of a box up to a threshold of a feature, and those above it."""
        own = self.feature_of == f
        lower = self.cells.value <= threshold
        return inside & (lower | ~own), inside & (~lower | ~own)

    def least_unrefuted(self, floors: Array) -> float:
        """The least cost of any box that no cut refutes, at most the claim; 0 if one is amiss."""
        answer, tree, size = self.claim, self.tree, len(self.tree)
        waiting = [(0, np.ones(len(self.cells.value), dtype=bool))]
        while waiting:
            node, inside = waiting.pop()
            f, left, right = (int(a[node]) for a in (tree.feature, tree.left, tree.right))
            if f >= 0:
                if not (f < len(self.cells.home) and node < left < size and node < right < size):
                    return 0.0
                low, high = self._parts(inside, f, float(tree.threshold[node]))
                waiting += [(left, low), (right, high)]
                continue
            cut, sliced = int(tree.reason[node]), int(tree.sliced[node])
            if cut >= len(self.limits) or sliced >= len(self.cells.home):
                return 0.0
            for part in self._slices(inside, sliced) if cut >= 0 else [inside]:
                if cut < 0 or not self._refuted(part, cut):
                    answer = min(answer, max(self._cost(part), float(floors[node])))
        return answer

    def _slices(self, inside: _Inside, f: int) -> list[_Inside]:
        """The box as a whole, or value by value of a feature."""
        if f < 0:
            return [inside]
        values = np.flatnonzero(inside & (self.feature_of == f))
        others = inside & (self.feature_of != f)
        return [others | (np.arange(len(inside)) == value) for value in values]

    def _least(self, inside: _Inside) -> Array:
        """The least cost of each feature in boxes, infinite if it has no value: `(..., p)`."""
        cost = np.where(inside, self.cells.cost, np.inf)
        return np.stack([cost[..., a:b].min(axis=-1) for a, b in pairwise(self.cells.start)], -1)

    def _cost(self, inside: _Inside) -> float:
        """What contexts of a box cost at least, with exactly one 1 in each one-hot group."""
        one = inside & (self.cells.value > 0.5)
        least = self._least(inside)
        ones, zeros = self._least(one), self._least(inside & ~one)
        grouped = [f for group in self.cells.groups for f in group]
        parts = [*np.delete(least, grouped)]
        for group in self.cells.groups:
            choices = [[ones[f], *(zeros[g] for g in group if g != f)] for f in group]
            parts.append(min(self._together(np.array(choices))))
        return float(self._together(np.array(parts)))

    def _together(self, costs: Array) -> Array:
        """What features cost together: `(..., p) -> (...)`."""
        found: Array = costs.max(axis=-1) if self.cells.largest else costs.sum(axis=-1)
        return found

    def _refuted(self, inside: _Inside, cut: int) -> bool:
        """Whether a cut is broken by the least leaves that are reached for less than the claim."""
        prices = self._together(self._least(inside & self.reached))
        least = np.full(max(self.owners) + 1, np.inf)
        near = prices < self.claim
        np.minimum.at(least, np.array(self.owners)[near], self.scores[near, cut])
        return bool(least.sum() > self.limits[cut])
