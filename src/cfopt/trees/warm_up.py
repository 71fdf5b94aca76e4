"""Everything that a search over trees compiles, compiled before any clock is read."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cfopt.trees.arrays import Spreads
from cfopt.trees.boxes import proved
from cfopt.trees.branch import Branching
from cfopt.trees.cells import Allowed, Cells, edges_of
from cfopt.trees.ensemble import TreeEnsemble
from cfopt.trees.layout import layout_of
from cfopt.trees.spread import division, spreads
from cfopt.trees.spread_check import CheckedBoxes


@lru_cache(1)
def warm_up() -> None:
    """Compile what searches and checks call, or load it, once for a process.

    That takes seconds where nothing is kept on the machine yet, which are nobody's time limit. A
    small search does it: functions are compiled for the kinds of their arguments, which are those
    of every ensemble.
    """
    ensemble = _two_stumps()
    size = ensemble.num_features
    cells = Cells.of(
        edges_of(ensemble, (), np.dtype(np.float64)),
        np.full(size, -1.0),
        np.ones(size),
        2,
        Allowed.anything(size),
    )
    branching = Branching(layout_of(ensemble, ()), cells)
    weights, limits = np.ones((1, ensemble.num_targets)), np.array([0.5])
    branching.cuts.add(weights[0], float(limits[0]), 1.0)
    question = branching.advance(budget=10)
    assert question is not None  # two of the four cells meet the cut
    branching.costs(question.cell)
    branching.cuts.tighten(question.cell, branching.forest)
    branching.without(question)
    tree = branching.tree()
    proved(tree, 1.0, ensemble, cells, weights, limits, np.zeros(len(tree)))
    low, high = (end[None].copy() for end in branching.extent(question))
    of_one, ones = Spreads.room(1, ensemble.num_targets), np.ones((1, ensemble.num_targets))
    parts = (ensemble.values, ensemble.base, ensemble.single, low, high, ones, ones)
    spreads(branching.forest, branching.space, *parts, np.inf, branching.sizes, *of_one)
    sizes, cuts = branching.sizes, branching.cuts.arrays
    division(branching.forest, branching.space, cuts, np.int64(0), low[0], high[0], 1.0, 1.0, sizes)
    boxes = CheckedBoxes(tree, ensemble, cells)
    boxes.spreads(np.zeros(1, dtype=np.intp), ones, ones, 1.0)


def _two_stumps() -> TreeEnsemble:
    """One cost: 1 where the first feature is at most 0, else 0, whatever the second one is."""
    leaf = -1
    return TreeEnsemble(
        roots=np.array([0, 3], dtype=np.int32),
        feature=np.array([0, leaf, leaf, 1, leaf, leaf], dtype=np.int32),
        threshold=np.zeros(6),
        left=np.array([1, 0, 1, 4, 2, 3], dtype=np.int32),
        right=np.array([2, -1, -1, 5, -1, -1], dtype=np.int32),
        missing_left=np.zeros(6, dtype=bool),
        values=np.array([[1.0], [0.0], [0.0], [0.0]]),
        targets=np.array([-1, -1], dtype=np.int32),
        base=np.zeros(1),
        num_features=2,
    )
