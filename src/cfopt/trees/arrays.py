"""What the compiled functions work on: the trees, cells, cuts and boxes of one row, as arrays.

A box is a range of cells for each feature, `low[f] <= cell <= high[f]`. A cut is a score for each
leaf: contexts meet it where the leaves that they reach add up to no more than its limit.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array

Ints = NDArray[np.int32]
#: A number that compiled functions know at run time only.
Number: TypeAlias = int | np.int64


class Forest(NamedTuple):
    """The trees of one row, thresholds as cells: `cell <= at[node]` goes left.

    `segment` and `edges` number the thresholds that one tree has for one feature: leaf l is in
    segments `leaf_first` to `leaf_last` of features `leaf_feature`, at positions
    `leaf_start[l]` to `leaf_start[l + 1]`. The features of tree t and where their edges begin are
    at positions `tree_start[t]` to `tree_start[t + 1]`.
    """

    roots: Ints
    feature: Ints
    at: Ints
    left: Ints
    right: Ints
    targets: Ints
    leaf_start: Ints
    leaf_slot: Ints
    leaf_first: Ints
    leaf_last: Ints
    tree_start: Ints
    slot_feature: Ints
    slot_start: Ints
    edges: Ints


class Space(NamedTuple):
    """The cells of one row: costs by feature, the origin's cells, and one-hot groups.

    `zero` and `one` are the cells of members of groups in which they are 0 and 1, or -1. The cost
    of a cell is the sum of those of its features or, where `largest` is set, the largest of them.
    """

    start: Ints
    cost: Array
    home: Ints
    grouped: NDArray[np.bool_]
    group_start: Ints
    members: Ints
    zero: Ints
    one: Ints
    largest: bool


class Cuts(NamedTuple):
    """Scores of leaves, `(L, K)`; or, where trees have a target each, one value a leaf `(L, 1)` and
    a weight for each cut and target `(K, n)`. Refuted is what exceeds the limit, `(K,)`.
    """

    single: bool
    score: Array
    weight: Array
    limit: Array
    size: Array


class Boxes(NamedTuple):
    """The tree of boxes: those that are open are in the heap.

    A box is divided by `feature` after cell `at` into `left` and `right`; or closed, with the cut
    that refutes it in `reason` (-1: it is too far), slice by slice of feature `sliced` if >= 0.
    """

    low: Ints
    high: Ints
    key: Array
    feature: Ints
    at: Ints
    left: Ints
    right: Ints
    reason: Ints
    sliced: Ints
    heap: Ints
    #: Boxes, length of the heap, boxes looked at.
    tally: NDArray[np.int64]


class Spreads(NamedTuple):
    """Costs in boxes are `s R + rest`: the ranges of s `(B, 2)` and of the rest `(B, 2, n)`.

    `least` is the least of a weighted sum of costs, base apart, `(B,)`.
    """

    share: Array
    rest: Array
    least: Array

    @staticmethod
    def room(boxes: int, costs: int) -> Spreads:
        """Room for the spreads of some boxes."""
        return Spreads(np.empty((boxes, 2)), np.empty((boxes, 2, costs)), np.empty(boxes))
