"""The check of a tree of boxes, compiled: leaves as boxes of their own, no tree is walked.

It shares nothing with the search that made the boxes, and does the plainest thing: it keeps the
leaves that meet a box and are near enough to matter, and adds the least score in each tree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.compiled import compiled, inner

_Ints = NDArray[np.int32]


@inner
def cheapest(
    dense: _Ints, to: _Ints, start: _Ints, number: _Ints, cost: Array, f: int, low: int, high: int
) -> float:
    """The least cost of the cells of a feature with numbers from low to high.

    Costs fall towards the cell of the origin and rise after it.
    """
    first, last = start[f], start[f + 1] - 1
    if low > number[last] or high < number[first]:
        return np.inf
    # The first cell from low on, and the last one up to high.
    begin = first if low <= number[first] else to[dense[f] + low]
    end = last if high >= number[last] else to[dense[f] + high + 1] - 1
    if begin > end:
        return np.inf
    home = to[dense[f + 1] - 1]
    return float(cost[min(max(home, begin), end)])


@inner
def joined(total: float, cost: float, largest: bool) -> float:
    """What features cost together with one more: the sum, or the largest."""
    return max(total, cost) if largest else total + cost


@inner
def _box_cost(
    dense: _Ints,
    to: _Ints,
    start: _Ints,
    number: _Ints,
    value: Array,
    cost: Array,
    group_start: _Ints,
    members: _Ints,
    low: _Ints,
    high: _Ints,
    largest: bool,
) -> float:
    """What cells of a box cost at least, with exactly one 1 in each one-hot group."""
    p = len(start) - 1
    grouped = np.zeros(p, np.bool_)
    for i in range(len(members)):
        grouped[members[i]] = True
    total = 0.0
    for f in range(p):
        if not grouped[f]:
            own = cheapest(dense, to, start, number, cost, f, low[f], high[f])
            total = joined(total, own, largest)
    for g in range(len(group_start) - 1):
        best = np.inf
        for i in range(group_start[g], group_start[g + 1]):
            chosen = members[i]
            one = 0.0
            for j in range(group_start[g], group_start[g + 1]):
                f = members[j]
                least = np.inf
                for k in range(start[f], start[f + 1]):
                    if low[f] <= number[k] <= high[f] and (value[k] > 0.5) == (f == chosen):
                        least = min(least, cost[k])
                one = joined(one, least, largest)
            best = min(best, one)
        total = joined(total, best, largest)
    return total


@compiled
def depth(feature: _Ints, left: _Ints, right: _Ints) -> int:
    """How often boxes are divided at most; parts come after the whole."""
    level, deepest = np.zeros(len(feature), np.int64), np.int64(0)
    for box in range(len(feature)):
        if feature[box] >= 0:
            level[left[box]] = level[right[box]] = level[box] + 1
            deepest = max(deepest, level[box] + 1)
    return int(deepest)


@compiled
def least_unrefuted(
    feature: _Ints,
    at: _Ints,
    left: _Ints,
    right: _Ints,
    reason: _Ints,
    sliced: _Ints,
    claim: float,
    leaf_low: _Ints,
    leaf_high: _Ints,
    owner: _Ints,
    scores: Array,
    limits: Array,
    start: _Ints,
    number: _Ints,
    value: Array,
    cost: Array,
    group_start: _Ints,
    members: _Ints,
    dense: _Ints,
    to: _Ints,
    deepest: int,
    floors: Array,
    largest: bool,
) -> float:
    """The least cost of any box that no cut refutes, at most the claim.

    Leaves that cost at least the claim are of no interest: what is proved is about nearer contexts.

    Arguments:
        feature, left, right, reason, sliced: the tree of boxes, as in `BoxTree`.
        at: the last cell of the left part, `(N,)`.
        claim: what is said to be proved.
        leaf_low, leaf_high, owner: the first and last cells of each leaf `(L, p)`, and its tree.
        scores, limits: what leaves add to each cut `(K, L)`, and what it may be `(K,)`.
        start, number, value, cost: the cells that the row may move to, as in `Cells`.
        group_start, members: one-hot groups, one behind the other.
        dense, to: where cells are found by their number (`directory`).
        deepest: more than how often boxes are divided.
        floors: what boxes cost at least for another reason, `(N,)`.
        largest: whether the cost of a cell is the largest of its features', and not their sum.
    """
    p, trees = leaf_low.shape[1], 0
    for tree in owner:
        trees = max(trees, tree + 1)
    kept = np.empty(2 * leaf_low.shape[0], np.int32)
    total = 0
    for i in range(leaf_low.shape[0]):
        whole = 0.0
        for g in range(p):
            own = cheapest(dense, to, start, number, cost, g, leaf_low[i, g], leaf_high[i, g])
            whole = joined(whole, own, largest)
        if whole < claim:
            kept[total] = i
            total += 1
    # Boxes that wait are at most one for each depth.
    first_kept, last_kept = np.zeros(deepest, np.int32), np.zeros(deepest, np.int32)
    last_kept[0] = total
    nodes, depths = np.zeros(deepest, np.int32), np.zeros(deepest, np.int32)
    waiting = 1
    lows, highs = np.zeros((deepest, p), np.int32), np.zeros((deepest, p), np.int32)
    for f in range(p):
        highs[0, f] = number[start[f + 1] - 1]
    least_of = np.empty(trees)
    answer = claim
    low, high = np.empty(p, np.int32), np.empty(p, np.int32)
    floor = np.empty(p)
    while waiting > 0:
        waiting -= 1
        node, depth = nodes[waiting], depths[waiting]
        for g in range(p):
            low[g] = lows[depth, g]
            high[g] = highs[depth, g]
        begin, end = first_kept[depth], last_kept[depth]
        if feature[node] >= 0:
            deeper = depth + 1
            f, cut = feature[node], at[node]
            if 2 * end - begin > len(kept):
                more = np.empty(2 * (2 * end - begin), np.int32)
                for i in range(end):
                    more[i] = kept[i]
                kept = more
            # Leaves of the left part follow those of the box; those of the right part replace them.
            place = end
            for i in range(begin, end):
                if leaf_low[kept[i], f] <= cut:
                    kept[place] = kept[i]
                    place += 1
            left_size = place - end
            stay = begin
            for i in range(begin, end):
                if leaf_high[kept[i], f] > cut:
                    kept[stay] = kept[i]
                    stay += 1
            # Close the gap, so that lists stand one behind the other.
            for i in range(left_size):
                kept[stay + i] = kept[end + i]
            last_kept[depth] = stay
            first_kept[deeper] = stay
            last_kept[deeper] = stay + left_size
            for g in range(p):
                lows[deeper, g] = low[g]
                highs[deeper, g] = high[g]
            highs[deeper, f] = min(high[f], cut)
            lows[depth, f] = max(low[f], cut + 1)
            nodes[waiting] = right[node]
            depths[waiting] = depth
            nodes[waiting + 1] = left[node]
            depths[waiting + 1] = deeper
            waiting += 2
            continue
        here = _box_cost(
            dense, to, start, number, value, cost, group_start, members, low, high, largest
        )
        here = max(here, floors[node])
        if here >= answer:
            continue
        c = reason[node]
        if c < 0:
            answer = here
            continue
        f = sliced[node]
        first, last = 0, 0
        if f >= 0:
            first, last = start[f], start[f + 1] - 1
        for k in range(first, last + 1):
            if f >= 0:  # one cell after the other
                if number[k] < lows[depth, f] or number[k] > highs[depth, f]:
                    continue
                low[f] = high[f] = number[k]
                here = _box_cost(
                    dense, to, start, number, value, cost, group_start, members, low, high, largest
                )
                if here >= answer:
                    continue
            together = 0.0
            for g in range(p):
                floor[g] = cheapest(dense, to, start, number, cost, g, low[g], high[g])
                together = joined(together, floor[g], largest)
            for t in range(trees):
                least_of[t] = np.inf
            for i in range(begin, end):
                leaf = kept[i]
                meets = scores[c, leaf] < least_of[owner[leaf]]
                if meets and f >= 0:
                    meets = leaf_low[leaf, f] <= low[f] <= leaf_high[leaf, f]
                if not meets:
                    continue
                price = together
                for g in range(p):
                    if leaf_low[leaf, g] > low[g] or leaf_high[leaf, g] < high[g]:
                        inside = cheapest(
                            dense,
                            to,
                            start,
                            number,
                            cost,
                            g,
                            max(low[g], leaf_low[leaf, g]),
                            min(high[g], leaf_high[leaf, g]),
                        )
                        price = max(price, inside) if largest else price + inside - floor[g]
                        if price >= claim:
                            break
                if price < claim:
                    least_of[owner[leaf]] = scores[c, leaf]
            added = 0.0
            for t in range(trees):
                added += least_of[t]
            if not added > limits[c]:
                answer = min(answer, here)
    return answer
