"""Bounds of boxes, compiled: what the nearest cell costs, and what cuts are at least."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.trees.arrays import Cuts, Forest, Ints, Number, Space
from cfopt.trees.compiled import compiled, inner


@inner
def _joined(space: Space, total: float, cost: float) -> float:
    """What a cell costs with one more feature."""
    return max(total, cost) if space.largest else total + cost


@inner
def moved(space: Space, total: float, before: float, after: float) -> float:
    """What a cell costs when one of its features costs more, `after` in place of `before`."""
    return max(total, after) if space.largest else total + after - before


@compiled
def nearest(space: Space, low: Ints, high: Ints, near: Ints) -> float:
    """The nearest cell of a box, and its cost; infinite where a one-hot group cannot be met."""
    total = 0.0
    for f in range(len(low)):
        near[f] = min(max(space.home[f], low[f]), high[f])
        if not space.grouped[f]:
            total = _joined(space, total, space.cost[space.start[f] + near[f]])
    for g in range(len(space.group_start) - 1):
        best, chosen = np.inf, -1
        first, last = space.group_start[g], space.group_start[g + 1]
        for i in range(first, last):
            cost = 0.0
            for k in range(first, last):
                f = space.members[k]
                cell = space.one[f] if k == i else space.zero[f]
                if cell < low[f] or cell > high[f]:
                    cost = np.inf
                    break
                cost = _joined(space, cost, space.cost[space.start[f] + cell])
            if cost < best:
                best, chosen = cost, i
        if chosen < 0:
            return np.inf
        total = _joined(space, total, best)
        for k in range(first, last):
            f = space.members[k]
            near[f] = space.one[f] if k == chosen else space.zero[f]
    return total


@inner
def separate(space: Space, low: Ints, high: Ints, cur: Ints) -> float:
    """The same without groups: what each feature must cost."""
    total = 0.0
    for f in range(len(low)):
        cur[f] = min(max(space.home[f], low[f]), high[f])
        total = _joined(space, total, space.cost[space.start[f] + cur[f]])
    return total


@compiled
def leaves_at(forest: Forest, cell: Ints, leaves: Ints) -> None:
    """The leaf that a cell reaches in each tree."""
    for t in range(len(forest.roots)):
        n = forest.roots[t]
        while forest.feature[n] >= 0:
            lower = cell[forest.feature[n]] <= forest.at[n]
            n = forest.left[n] if lower else forest.right[n]
        leaves[t] = forest.left[n]


@compiled
def values_at(forest: Forest, cuts: Cuts, count: int, cell: Ints, value: Array) -> None:
    """What each cut is in a cell."""
    for c in range(count):
        value[c] = 0.0
    for t in range(len(forest.roots)):
        n = forest.roots[t]
        while forest.feature[n] >= 0:
            lower = cell[forest.feature[n]] <= forest.at[n]
            n = forest.left[n] if lower else forest.right[n]
        leaf = forest.left[n]
        if cuts.single:
            target = forest.targets[t]
            for c in range(count):
                value[c] += cuts.weight[c, target] * cuts.score[leaf, 0]
        else:
            for c in range(count):
                value[c] += cuts.score[leaf, c]


@inner
def reachable(
    forest: Forest,
    space: Space,
    t: int,
    low: Ints,
    high: Ints,
    cur: Ints,
    cost: float,
    cutoff: float,
    stack: Ints,
    costs: Array,
    found: Ints,
) -> int:
    """The leaves of a tree that cells of a box reach at less than a cost; returns how many.

    `cur` is the nearest cell of the box, left as it was; on the way to a leaf it is the nearest one
    that goes there, and `cost` grows with it.
    """
    m = sp = trail = 0
    half = len(stack) // 2
    n = forest.roots[t]
    while True:
        while forest.feature[n] >= 0:
            f, at = forest.feature[n], forest.at[n]
            if high[f] <= at:
                n = forest.left[n]
            elif low[f] > at:
                n = forest.right[n]
            else:
                lower = cur[f] <= at
                there = at + 1 if lower else at
                begin = space.start[f]
                more = moved(space, cost, space.cost[begin + cur[f]], space.cost[begin + there])
                if more < cutoff:
                    stack[4 * sp] = forest.right[n] if lower else forest.left[n]
                    stack[4 * sp + 1] = f
                    stack[4 * sp + 2] = there
                    stack[4 * sp + 3] = trail
                    costs[sp] = more
                    sp += 1
                n = forest.left[n] if lower else forest.right[n]
        found[m] = forest.left[n]
        m += 1
        if sp == 0:
            break
        sp -= 1
        while trail > stack[4 * sp + 3]:
            trail -= 1
            cur[stack[half + 2 * trail]] = stack[half + 2 * trail + 1]
        f = stack[4 * sp + 1]
        stack[half + 2 * trail] = f
        stack[half + 2 * trail + 1] = cur[f]
        trail += 1
        cur[f] = stack[4 * sp + 2]
        cost = costs[sp]
        n = stack[4 * sp]
    while trail > 0:
        trail -= 1
        cur[stack[half + 2 * trail]] = stack[half + 2 * trail + 1]
    return m


@inner
def least(
    forest: Forest,
    space: Space,
    cuts: Cuts,
    count: int,
    low: Ints,
    high: Ints,
    cur: Ints,
    cost: float,
    cutoff: float,
    stack: Ints,
    costs: Array,
    found: Ints,
    bound: Array,
) -> None:
    """What each cut is at least in a box: the sum over trees of their least reachable leaves."""
    for c in range(count):
        bound[c] = 0.0
    smallest = np.empty(count)
    for t in range(len(forest.roots)):
        m = reachable(forest, space, t, low, high, cur, cost, cutoff, stack, costs, found)
        if cuts.single:
            least_value = most_value = cuts.score[found[0], 0]
            for i in range(1, m):
                value = cuts.score[found[i], 0]
                least_value, most_value = min(least_value, value), max(most_value, value)
            target = forest.targets[t]
            for c in range(count):
                weight = cuts.weight[c, target]
                bound[c] += weight * (least_value if weight > 0 else most_value)
        elif m == 1:
            for c in range(count):
                bound[c] += cuts.score[found[0], c]
        else:
            for c in range(count):
                smallest[c] = cuts.score[found[0], c]
            for i in range(1, m):
                for c in range(count):
                    smallest[c] = min(smallest[c], cuts.score[found[i], c])
            for c in range(count):
                bound[c] += smallest[c]


@inner
def slices(
    forest: Forest,
    space: Space,
    cuts: Cuts,
    c: Number,
    need: float,
    low: Ints,
    high: Ints,
    cur: Ints,
    cost: float,
    cutoff: float,
    stack: Ints,
    costs: Array,
    found: Ints,
    least_of: Array,
    local: Array,
    stamp: Ints,
    each: Array,
    below: Array,
    above: Array,
) -> None:
    """By how much one cut's bound grows if a feature is in one cell, up to it, or from it on.

    Each `(C + 1,)`, by cells. What exceeds `need`, or cannot be reached, counts as `need`.
    """
    for f in range(len(low)):
        begin = space.start[f] + f
        for j in range(low[f], high[f] + 2):
            each[begin + j] = 0.0
            below[begin + j] = 0.0
            above[begin + j] = 0.0
    for t in range(len(forest.roots)):
        m = reachable(forest, space, t, low, high, cur, cost, cutoff, stack, costs, found)
        if m == 1 and cutoff == np.inf:
            continue
        weight = cuts.weight[c, forest.targets[t]] if cuts.single else 1.0
        if cuts.single and weight == 0.0:
            continue
        first_slot, last_slot = forest.tree_start[t], forest.tree_start[t + 1]
        for s in range(first_slot, last_slot):
            least_of[s - first_slot] = np.inf
            stamp[s - first_slot] = -1
        base = forest.slot_start[first_slot]
        for k in range(base + first_slot, forest.slot_start[last_slot] + last_slot):
            local[k - base - first_slot] = np.inf
        smallest = np.inf
        for i in range(m):
            leaf = found[i]
            score = weight * cuts.score[leaf, 0] if cuts.single else cuts.score[leaf, c]
            smallest = min(smallest, score)
            for k in range(forest.leaf_start[leaf], forest.leaf_start[leaf + 1]):
                s = forest.leaf_slot[k]
                stamp[s] = i
                at = forest.slot_start[first_slot + s] - base + s
                for j in range(at + forest.leaf_first[k], at + forest.leaf_last[k] + 1):
                    local[j] = min(local[j], score)
            for s in range(last_slot - first_slot):
                if stamp[s] != i:
                    least_of[s] = min(least_of[s], score)
        for s in range(first_slot, last_slot):
            f = forest.slot_feature[s]
            if low[f] == high[f]:
                continue
            begin = space.start[f] + f
            edge, end = forest.slot_start[s], forest.slot_start[s + 1]
            at = edge - base + s - first_slot
            k = 0
            while edge + k < end and forest.edges[edge + k] < low[f]:
                k += 1
            first = k
            one = running = 0.0
            where = low[f]
            so_far = need
            while True:  # the segments of this feature from low to high
                more = min(min(local[at + k], least_of[s - first_slot]) - smallest, need)
                so_far = min(so_far, more)
                each[begin + where] += more - one
                below[begin + where] += so_far - running
                one, running = more, so_far
                if edge + k >= end or forest.edges[edge + k] >= high[f]:
                    break
                where = forest.edges[edge + k] + 1
                k += 1
            so_far = need
            running = 0.0
            where = high[f]
            while k >= first:  # and back again
                more = min(min(local[at + k], least_of[s - first_slot]) - smallest, need)
                so_far = min(so_far, more)
                above[begin + where] += so_far - running
                running = so_far
                k -= 1
                if k >= first:
                    where = forest.edges[edge + k]
    for f in range(len(low)):
        begin = space.start[f] + f
        for j in range(low[f] + 1, high[f] + 1):
            each[begin + j] += each[begin + j - 1]
            below[begin + j] += below[begin + j - 1]
        for j in range(high[f] - 1, low[f] - 1, -1):
            above[begin + j] += above[begin + j + 1]
