"""Trees and cells in the form that compiled functions work on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cfopt.trees.arrays import Forest, Ints, Space
from cfopt.trees.cells import Cells, Groups, thresholds_of
from cfopt.trees.ensemble import TreeEnsemble

#: The number of ensembles for which what was made is kept.
_KEPT = 4


@lru_cache(_KEPT)
def layout_of(ensemble: TreeEnsemble, groups: Groups) -> Layout:
    """The layout of an ensemble, made once."""
    return Layout(ensemble, groups)


class Layout:
    """What all rows share: which thresholds trees compare, and where their leaves are.

    Arguments:
        ensemble: the trees.
        groups: the features of each one-hot group.
    """

    def __init__(self, ensemble: TreeEnsemble, groups: Groups) -> None:
        self.ensemble, self.thresholds = ensemble, thresholds_of(ensemble, groups)
        self.single = ensemble.single
        index = np.zeros(len(ensemble.feature), dtype=np.int32)
        for f, edges in enumerate(self.thresholds):
            nodes = ensemble.feature == f
            given = ensemble.threshold[nodes]
            index[nodes] = np.searchsorted(edges, given)
            index[nodes] -= given == -np.inf  # below all cells
        self.index = index
        self.leaves, self.sizes = _segments(ensemble, index)

    def forest(self, cells: Cells) -> Forest:
        """The trees, with thresholds as cells of a row."""
        ensemble = self.ensemble
        *arrays, slot_feature, slot_start, edges = self.leaves
        owner = np.repeat(slot_feature, np.diff(slot_start))
        parts = [
            ensemble.roots,
            ensemble.feature,
            self._last_cells(cells, ensemble.feature, self.index),
            ensemble.left,
            ensemble.right,
            ensemble.targets,
            *arrays,
            slot_feature,
            slot_start,
            self._last_cells(cells, owner, edges),
        ]
        return Forest._make(parts)

    @staticmethod
    def _last_cells(cells: Cells, feature: Ints, index: Ints) -> Ints:
        """The last cell that is not above a threshold, counted from the feature's first."""
        found = np.zeros(len(feature), dtype=np.int32)
        for f in range(len(cells.home)):
            own = cells.number[cells.start[f] : cells.start[f + 1]]
            nodes = feature == f
            found[nodes] = np.searchsorted(own, index[nodes], side="right") - 1
        return found


def _segments(ensemble: TreeEnsemble, index: Ints) -> tuple[list[Ints], Ints]:
    """The thresholds of each tree by feature, and the segments between them that leaves take up.

    Arguments:
        ensemble: the trees.
        index: the number of each node's threshold among those of its feature, `(N,)`.

    Returns the arrays of `Forest` from `leaf_start` to `edges`, the latter as such numbers; and the
    greatest depth, leaves, edges and slots of a tree, and room for cells.
    """
    feature, count = ensemble.feature, len(ensemble.feature)
    ends = np.append(ensemble.roots[1:], count)
    tree = np.repeat(np.arange(ensemble.num_trees), ends - ensemble.roots)
    inner = np.flatnonzero(feature >= 0)
    # A slot is a tree and one of its features; its edges are the thresholds, each once.
    keys = np.stack([tree[inner], feature[inner], index[inner]], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    new = np.ones(len(unique), dtype=bool)
    new[1:] = (unique[1:, :2] != unique[:-1, :2]).any(axis=1)
    slot_start = np.append(np.flatnonzero(new), len(unique))
    tree_start = np.searchsorted(unique[new, 0], np.arange(ensemble.num_trees + 1))
    slot = np.zeros(count, dtype=np.int64)
    place = np.zeros(count, dtype=np.int64)
    slot[inner] = np.cumsum(new)[inverse.reshape(-1)] - 1
    place[inner] = inverse.reshape(-1) - slot_start[slot[inner]]
    # From each leaf up to the root, what nodes on the way say about its segments.
    parent = np.full(count, -1)
    parent[ensemble.left[inner]] = parent[ensemble.right[inner]] = inner
    child = np.flatnonzero(feature < 0)
    leaf, records, depth = np.arange(len(child)), [], 0
    while True:
        up = parent[child]
        leaf, child, up = leaf[up >= 0], child[up >= 0], up[up >= 0]
        if not len(up):
            break
        left = ensemble.left[up] == child
        first = np.where(left, 0, place[up] + 1)
        width = slot_start[slot[up] + 1] - slot_start[slot[up]]
        last = np.where(left, place[up], width)
        records.append(np.stack([leaf, slot[up] - tree_start[tree[up]], first, last]))
        child, depth = up, depth + 1
    every = np.concatenate(records, axis=1) if records else np.empty((4, 0), dtype=np.int64)
    every = every[:, np.lexsort(every[1::-1])]
    fresh = np.ones(every.shape[1], dtype=bool)
    fresh[1:] = (every[:2, 1:] != every[:2, :-1]).any(axis=0)
    begin = np.flatnonzero(fresh)
    own = every[:, begin]
    if len(begin):
        own[2] = np.maximum.reduceat(every[2], begin)
        own[3] = np.minimum.reduceat(every[3], begin)
    leaf_start = np.searchsorted(own[0], np.arange(len(ensemble.values) + 1))
    sizes = [
        depth,
        int(np.bincount(tree[feature < 0]).max()),
        int(np.bincount(unique[:, 0], minlength=1).max()),
        int(np.diff(tree_start).max()),
        0,
    ]
    arrays = [leaf_start, *own[1:], tree_start, unique[new, 1], slot_start, unique[:, 2]]
    return [array.astype(np.int32) for array in arrays], np.array(sizes, dtype=np.int32)


def space_of(cells: Cells) -> Space:
    """The cells of a row, for kernels."""
    p = len(cells.home)
    zero, one = np.full(p, -1, dtype=np.int32), np.full(p, -1, dtype=np.int32)
    members = [f for group in cells.groups for f in group]
    for f in members:
        values = cells.value[cells.start[f] : cells.start[f + 1]]
        for cell, value in enumerate(values):
            (zero if value < 0.5 else one)[f] = cell
    grouped = np.zeros(p, dtype=bool)
    grouped[members] = True
    starts = np.cumsum([0] + [len(group) for group in cells.groups])
    return Space(
        cells.start,
        cells.cost,
        cells.home,
        grouped,
        starts.astype(np.int32),
        np.array(members, dtype=np.int32),
        zero,
        one,
        cells.largest,
    )
