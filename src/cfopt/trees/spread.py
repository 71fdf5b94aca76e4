"""How much costs differ within boxes of cells, compiled: bounds that hold for all decisions.

Costs in a box are `s R + rest`, with the costs R of one context: trees that predict all costs raise
or lower them together, so that the rest is small. A cut is about one decision; this is about none.
"""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.trees.arrays import Cuts, Forest, Ints, Number, Space
from cfopt.trees.bounds import reachable, separate, slices
from cfopt.trees.compiled import compiled
from cfopt.trees.kernels import best_division


@compiled
def spreads(
    forest: Forest,
    space: Space,
    values: Array,
    base: Array,
    single: bool,
    lows: Ints,
    highs: Ints,
    references: Array,
    weights: Array,
    cutoff: float,
    sizes: Ints,
    share: Array,
    rest: Array,
    least_of: Array,
) -> None:
    """The ranges of s and of the rest in boxes, and the least of a weighted sum of costs.

    Where trees have a target each, s is 0: no leaf says anything of two costs.

    Arguments:
        forest, space: the trees and cells of the row.
        values, base, single: what leaves add, and the rest of the ensemble.
        lows, highs: the first and last cells of boxes, `(B, p)`.
        references: R of each box, `(B, n)`.
        weights: those of the sum, `(B, n)`.
        cutoff: leaves that cost as much are of no interest.
        sizes: the greatest depth, leaves, edges and slots of a tree, and cells of a feature.
        share, rest, least_of: receive the ranges, `(B, 2)` and `(B, 2, n)`, and the sums without
            base, `(B,)`.
    """
    p, n = lows.shape[1], len(base)
    cur = np.empty(p, np.int32)
    stack, costs = np.empty(8 * sizes[0] + 16, np.int32), np.empty(sizes[0] + 2)
    found = np.empty(sizes[1] + 1, np.int32)
    low, high = np.empty(n), np.empty(n)
    for b in range(len(lows)):
        reference = references[b]
        size = (reference * reference).sum()
        first = (reference * base).sum() / size if size > 0 and not single else 0.0
        share[b, :] = first
        for j in range(n):
            rest[b, 0, j] = rest[b, 1, j] = base[j] - first * reference[j]
        least_of[b] = 0.0
        cost = separate(space, lows[b], highs[b], cur)
        for t in range(len(forest.roots)):
            m = reachable(
                forest, space, t, lows[b], highs[b], cur, cost, cutoff, stack, costs, found
            )
            if single:
                j = forest.targets[t]
                least_value = most_value = values[found[0], 0]
                for i in range(1, m):
                    value = values[found[i], 0]
                    least_value, most_value = min(least_value, value), max(most_value, value)
                rest[b, 0, j] += least_value
                rest[b, 1, j] += most_value
                weight = weights[b, j]
                least_of[b] += weight * (least_value if weight > 0 else most_value)
                continue
            low[:], high[:] = np.inf, -np.inf
            least_share, most_share, smallest = np.inf, -np.inf, np.inf
            for i in range(m):
                leaf = found[i]
                along = total = 0.0
                for j in range(n):
                    along += reference[j] * values[leaf, j]
                    total += weights[b, j] * values[leaf, j]
                along = along / size if size > 0 else 0.0
                least_share, most_share = min(least_share, along), max(most_share, along)
                smallest = min(smallest, total)
                for j in range(n):
                    value = values[leaf, j] - along * reference[j]
                    low[j], high[j] = min(low[j], value), max(high[j], value)
            share[b, 0] += least_share
            share[b, 1] += most_share
            least_of[b] += smallest
            for j in range(n):
                rest[b, 0, j] += low[j]
                rest[b, 1, j] += high[j]


@compiled
def division(
    forest: Forest,
    space: Space,
    cuts: Cuts,
    c: Number,
    low: Ints,
    high: Ints,
    need: float,
    cutoff: float,
    sizes: Ints,
) -> tuple[int, int]:
    """Where to divide a box so that a cut's bound grows in both parts: feature and cell.

    Arguments:
        forest, space, cuts: the trees and cells of the row, and its cuts.
        c: the cut.
        low, high: the first and last cells of the box, `(p,)`.
        need: by how much the bound of the cut has to grow, > 0.
        cutoff, sizes: as in `spreads`.
    """
    p = len(low)
    cur = np.empty(p, np.int32)
    stack, costs = np.empty(8 * sizes[0] + 16, np.int32), np.empty(sizes[0] + 2)
    found = np.empty(sizes[1] + 1, np.int32)
    least_of, stamp = np.empty(sizes[3] + 1), np.empty(sizes[3] + 1, np.int32)
    local, spare = np.empty(sizes[2] + sizes[3] + 1), np.empty(sizes[4] + 1)
    width = space.start[p] + p
    each, below, above = np.empty(width), np.empty(width), np.empty(width)
    cost = separate(space, low, high, cur)
    slices(
        forest, space, cuts, c, need, low, high, cur, cost, cutoff, stack, costs, found,
        least_of, local, stamp, each, below, above,
    )  # fmt: skip
    f, at, _ = best_division(space, low, high, cur, need, cost, cutoff, each, below, above, spare)
    return f, at
