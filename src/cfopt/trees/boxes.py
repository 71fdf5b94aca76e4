"""A proof that all cells nearer than a bound are refuted: a tree of boxes, and its check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.cells import Cells, Groups, thresholds_of
from cfopt.trees.ensemble import TreeEnsemble

#: The number of ensembles for which what was made is kept.
_KEPT = 4

_Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class BoxTree:
    """Boxes that divide all contexts; each that is not divided is refuted by a cut, or far away.

    Arguments:
        feature: the feature by which a box is divided, -1 if it is not, `(N,)`.
        threshold: contexts up to it are in the left part, `(N,)`.
        left, right: the parts of a box, `(N,)`.
        reason: the cut that refutes a box that is not divided, -1 if it is far away, `(N,)`.
        sliced: the feature for each of whose cells the cut refutes the box, -1 if it does so as a
            whole, `(N,)`.
    """

    feature: _Ints
    threshold: Array
    left: _Ints
    right: _Ints
    reason: _Ints
    sliced: _Ints

    def __len__(self) -> int:
        return len(self.feature)

    def sound(self, features: int, cuts: int) -> bool:
        """Whether it is a tree of boxes that refers to no more features and cuts than there are."""
        count, inner = len(self), self.feature >= 0
        whole, parts = np.flatnonzero(inner), (self.left[inner], self.right[inner])
        return (
            count > 0
            and bool((self.feature < features).all() and (self.sliced < features).all())
            and bool((self.reason < cuts).all())
            # Parts come after the whole, so that nothing is its own part.
            and all(bool((part > whole).all() and (part < count).all()) for part in parts)
        )

    def only_cell(self, box: int, thresholds: list[Array], cells: Cells) -> _Ints | None:
        """The one cell that a row may move to in a box, `(p,)`; None if there are more, or none."""
        low, high = np.zeros(len(thresholds)), np.full(len(thresholds), np.inf)
        divided = (self.feature >= 0) & (self.left != self.right)
        while box > 0:
            parent = np.flatnonzero(divided & ((self.left == box) | (self.right == box)))
            if len(parent) != 1 or parent[0] >= box:
                return None
            by = self.feature[parent]
            at = last_cell(thresholds, by, self.threshold[parent])
            if self.left[parent] == box:
                high[by] = np.minimum(high[by], at)
            else:
                low[by] = np.maximum(low[by], at + 1)
            box = int(parent[0])
        found = np.empty(len(thresholds), dtype=np.int32)
        for f, (first, end) in enumerate(pairwise(cells.start.tolist())):
            own = cells.number[first:end]
            inside = np.flatnonzero((own >= low[f]) & (own <= high[f]))
            if len(inside) != 1:
                return None
            found[f] = inside[0]
        return found


#: A check: boxes, claim, ensemble, cells, weights, limits and floors in; what is proved out.
Check: TypeAlias = Callable[[BoxTree, float, TreeEnsemble, Cells, Array, Array, Array], float]


@lru_cache(_KEPT)
def leaf_boxes(ensemble: TreeEnsemble, groups: Groups) -> tuple[_Ints, _Ints, _Ints]:
    """The first and last cells that reach each leaf, `(L, p)` each, and its tree, `(L,)`.

    Cells are numbered as those between all thresholds of a feature.
    """
    thresholds = thresholds_of(ensemble, groups)
    count, p = len(ensemble.values), ensemble.num_features
    last = np.array([len(edges) for edges in thresholds], dtype=np.int32)
    low: _Ints = np.zeros((len(ensemble.feature), p), dtype=np.int32)
    high: _Ints = np.tile(last, (len(ensemble.feature), 1))
    tree = np.zeros(count, dtype=np.int32)
    level = np.asarray(ensemble.roots)
    owner = np.arange(len(level), dtype=np.int32)
    while len(level):
        inner = ensemble.feature[level] >= 0
        tree[ensemble.left[level[~inner]]] = owner[~inner]
        level, owner = level[inner], owner[inner]
        f = ensemble.feature[level]
        at = last_cell(thresholds, f, ensemble.threshold[level])
        left, right = ensemble.left[level], ensemble.right[level]
        for child in (left, right):
            low[child], high[child] = low[level], high[level]
        high[left, f] = np.minimum(high[left, f], at)
        low[right, f] = np.maximum(low[right, f], at + 1)
        level, owner = np.concatenate([left, right]), np.concatenate([owner, owner])
    leaves = np.flatnonzero(ensemble.feature < 0)
    order = ensemble.left[leaves].argsort()
    return low[leaves[order]], high[leaves[order]], tree


def last_cell(thresholds: list[Array], feature: _Ints, threshold: Array) -> _Ints:
    """The last cell up to a threshold: `(K,), (K,) -> (K,)`."""
    found = np.empty(len(feature), dtype=np.int32)
    for f in np.unique(feature):
        own = feature == f
        # Cell j ends with threshold j, which is the first one that is not below.
        found[own] = np.searchsorted(thresholds[f], threshold[own], side="right") - 1
        found[own] += threshold[own] == np.inf
    return found


def directory(cells: Cells) -> tuple[_Ints, _Ints]:
    """Where the first cell from each number on stands; last, for each feature, the cheapest.

    Returns where the entries of each feature begin, `(p + 1,)`, and the entries.
    """
    parts = []
    for first, end in pairwise(cells.start.tolist()):
        numbers = np.arange(cells.number[end - 1] + 1)
        found = first + np.searchsorted(cells.number[first:end], numbers)
        parts.append(np.append(found, first + cells.cost[first:end].argmin()))
    dense = np.cumsum([0] + [len(part) for part in parts])
    return dense.astype(np.int32), np.concatenate(parts).astype(np.int32)


def proved(
    tree: BoxTree,
    claim: float,
    ensemble: TreeEnsemble,
    cells: Cells,
    weights: Array,
    limits: Array,
    floors: Array,
) -> float:
    """What a tree of boxes proves about the cost of cells that meet all cuts; 0 if nothing.

    Arguments:
        tree: the boxes.
        claim: what they are said to prove; leaves that cost as much are not looked at.
        ensemble: the trees.
        cells: those that the row may move to.
        weights, limits: the cuts, `<costs without base, weight> <= limit`, `(K, n)` and `(K,)`.
        floors: what boxes cost at least for another reason, `(N,)`.
    """
    from cfopt.trees import check

    thresholds = thresholds_of(ensemble, cells.groups)
    low, high, owner = leaf_boxes(ensemble, cells.groups)
    if ensemble.single:
        scores = ensemble.values[:, 0] * weights[:, ensemble.targets[owner]]
    else:
        scores = weights @ ensemble.values.T
    count, inner = len(tree), tree.feature >= 0
    if not tree.sound(ensemble.num_features, len(limits)):
        return 0.0
    at = np.zeros(count, dtype=np.int32)
    at[inner] = last_cell(thresholds, tree.feature[inner], tree.threshold[inner])
    starts = np.cumsum([0] + [len(group) for group in cells.groups]).astype(np.int32)
    members = np.array([f for group in cells.groups for f in group], dtype=np.int32)
    return float(
        check.least_unrefuted(
            tree.feature, at, tree.left, tree.right, tree.reason, tree.sliced,
            claim, low, high, owner, np.ascontiguousarray(scores), limits,
            cells.start, cells.number, cells.value, cells.cost, starts, members,
            *directory(cells), check.depth(tree.feature, tree.left, tree.right) + 2, floors,
            cells.largest,
        )
    )  # fmt: skip
