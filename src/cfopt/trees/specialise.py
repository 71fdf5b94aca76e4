"""A tree ensemble of one cost, with some features fixed in several ways: one cost for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.ensemble import TreeEnsemble

#: More nodes than these are not made.
_MOST_NODES = 4_000_000
#: Up to how many numbers leaves may have a value for every cost.
_MOST_VALUES = 20_000_000

_Whole = NDArray[np.int64]


@dataclass(frozen=True)
class _Part:
    """What is left of a tree for some items.

    Arguments:
        nodes: those of the ensemble that it keeps, the root first, `(K,)`.
        left, right: which of them follow, 0 in leaves, `(K,)`.
        items: the items that the tree belongs to.
    """

    nodes: _Whole
    left: _Whole
    right: _Whole
    items: _Whole


def specialise(ensemble: TreeEnsemble, places: list[int], items: Array) -> TreeEnsemble | None:
    """The costs of all items as an ensemble of the other features; None if it would be too large.

    Branches that an item cannot take are left out, trees that always give it the same go to the
    base, and items for which the same is left of a tree share it.

    Arguments:
        ensemble: trees with one target.
        places: the features that are an item's, `(q,)`.
        items: their values for each item, `(n, q)`.
    """
    base, parts, count = np.repeat(ensemble.base, len(items)), [], 0
    leaf_values = ensemble.values[:, 0]
    ends = np.append(ensemble.roots[1:], len(ensemble.feature))
    for root, end in zip(ensemble.roots.tolist(), ends.tolist(), strict=True):
        for part in _pruned(ensemble, root, end, places, items):
            if len(part.nodes) == 1:
                base[part.items] += leaf_values[ensemble.left[part.nodes[0]]]
                continue
            parts.append(part)
            count += len(part.nodes)
            if count > _MOST_NODES:
                return None
    if not parts:  # there has to be a tree: what it adds is taken off again
        leaf = np.flatnonzero(ensemble.feature < 0)[:1]
        base = base - leaf_values[ensemble.left[leaf]]
        parts = [_Part(leaf, leaf * 0, leaf * 0, np.arange(len(items)))]
    return _joined(ensemble, parts, base, places)


def _pruned(
    ensemble: TreeEnsemble, root: int, end: int, places: list[int], items: Array
) -> list[_Part]:
    """What is left of one tree, nodes root to end, for items that differ in it."""
    feature = ensemble.feature[root:end]
    inner = feature >= 0
    left = np.where(inner, ensemble.left[root:end] - root, 0).astype(np.int64)
    right = np.where(inner, ensemble.right[root:end] - root, 0).astype(np.int64)
    fixed = np.flatnonzero(np.isin(feature, places))
    column = np.array([places.index(f) for f in feature[fixed].tolist()], dtype=np.int64)
    lower = items[:, column] <= ensemble.threshold[root:end][fixed]
    # One row for each way in which items answer all questions about them.
    ways, way_of = np.zeros((1, 0), dtype=bool), np.zeros(len(items), dtype=np.int64)
    if len(fixed):
        ways, way_of = np.unique(lower, axis=0, return_inverse=True)
    following = np.tile(np.arange(len(feature)), (len(ways), 1))
    following[:, fixed] = np.where(ways, left[fixed], right[fixed])
    while True:  # until nothing that follows is a question about items
        further = np.take_along_axis(following, following, axis=1)
        if np.array_equal(further, following):
            break
        following = further
    reached = np.zeros(following.shape, dtype=bool)
    way, node = np.arange(len(ways)), following[:, 0]
    while len(node):
        reached[way, node] = True
        way, node = way[inner[node]], node[inner[node]]
        node = np.concatenate([following[way, left[node]], following[way, right[node]]])
        way = np.concatenate([way, way])
    kept, first, group_of = np.unique(reached, axis=0, return_index=True, return_inverse=True)
    group = group_of.reshape(-1)[way_of.reshape(-1)]
    found = []
    for k, row in enumerate(first.tolist()):
        start = following[row, 0]
        nodes = np.flatnonzero(kept[k])
        nodes = np.concatenate([[start], nodes[nodes != start]])
        number = np.zeros(len(feature), dtype=np.int64)
        number[nodes] = np.arange(len(nodes))
        sides = [np.where(inner, number[following[row, side]], 0)[nodes] for side in (left, right)]
        found.append(_Part(nodes + root, sides[0], sides[1], np.flatnonzero(group == k)))
    return found


def _joined(
    ensemble: TreeEnsemble, parts: list[_Part], base: Array, places: list[int]
) -> TreeEnsemble:
    """The parts as one ensemble."""
    leaves = sum(int((ensemble.feature[part.nodes] < 0).sum()) for part in parts)
    shared = any(len(part.items) != 1 for part in parts) and leaves * len(base) <= _MOST_VALUES
    trees = parts
    if not shared:
        trees = [replace(part, items=one) for part in parts for one in part.items[:, None]]
    sizes = [len(tree.nodes) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(roots, sizes)
    nodes = np.concatenate([tree.nodes for tree in trees])
    is_leaf = ensemble.feature[nodes] < 0
    value = ensemble.values[ensemble.left[nodes[is_leaf]]]
    if shared:
        owner = np.repeat(np.arange(len(trees)), sizes)[is_leaf]
        belongs = np.zeros((len(trees), len(base)))
        for k, tree in enumerate(trees):
            belongs[k, tree.items] = 1.0
        value = value * belongs[owner]
    left = np.concatenate([tree.left for tree in trees]) + shift
    left[is_leaf] = np.arange(is_leaf.sum())
    right = np.concatenate([tree.right for tree in trees]) + shift
    right[is_leaf] = -1
    others = np.setdiff1d(np.arange(ensemble.num_features), places)
    feature = np.where(is_leaf, -1, np.searchsorted(others, ensemble.feature[nodes]))
    targets = [-1 if shared else int(tree.items[0]) for tree in trees]
    return TreeEnsemble(
        roots=roots.astype(np.int32),
        feature=feature.astype(np.int32),
        threshold=ensemble.threshold[nodes],
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        missing_left=ensemble.missing_left[nodes],
        values=value,
        targets=np.array(targets, dtype=np.int32),
        base=base,
        num_features=len(others),
        precision=ensemble.precision,
    )
