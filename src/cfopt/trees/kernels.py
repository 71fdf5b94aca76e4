"""Branch and cut over boxes of cells, compiled: which box is next, and how it is divided."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.trees.arrays import Boxes, Cuts, Forest, Ints, Number, Space
from cfopt.trees.bounds import least, moved, nearest, separate, slices, values_at
from cfopt.trees.compiled import compiled, inner

#: Why `search` returns: nothing is open, a cell is to be judged, space or the budget is used up.
DONE, ASK, FULL, PAUSE = 0, 1, 2, 3
#: How often a box is trimmed before it is divided.
_TRIMS = 3


@compiled
def push(boxes: Boxes, box: Number) -> None:
    """Put a box on the heap, the nearest first."""
    i = boxes.tally[1]
    boxes.tally[1] += 1
    while i > 0:
        parent = (i - 1) // 2
        if boxes.key[boxes.heap[parent]] <= boxes.key[box]:
            break
        boxes.heap[i] = boxes.heap[parent]
        i = parent
    boxes.heap[i] = box


@inner
def pop(boxes: Boxes) -> int:
    """Take the nearest open box from the heap."""
    top = boxes.heap[0]
    boxes.tally[1] -= 1
    size = boxes.tally[1]
    last = boxes.heap[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        right = child + 1
        if right < size and boxes.key[boxes.heap[right]] < boxes.key[boxes.heap[child]]:
            child = right
        if boxes.key[boxes.heap[child]] >= boxes.key[last]:
            break
        boxes.heap[i] = boxes.heap[child]
        i = child
    boxes.heap[i] = last
    return int(top)


@compiled
def divide(boxes: Boxes, space: Space, box: Number, f: int, at: int, near: Ints) -> None:
    """Make two boxes of one: the cells of a feature up to one, and those after it."""
    left = boxes.tally[0]
    right = left + 1
    boxes.tally[0] += 2
    boxes.feature[box] = f
    boxes.at[box] = at
    boxes.left[box] = left
    boxes.right[box] = right
    for child in range(left, right + 1):
        for g in range(len(near)):
            boxes.low[child, g] = boxes.low[box, g]
            boxes.high[child, g] = boxes.high[box, g]
        boxes.feature[child] = -1
        boxes.sliced[child] = -1
        boxes.reason[child] = -1
    boxes.high[left, f] = at
    boxes.low[right, f] = at + 1
    boxes.key[left] = nearest(space, boxes.low[left], boxes.high[left], near)
    boxes.key[right] = nearest(space, boxes.low[right], boxes.high[right], near)


@inner
def _progress(gain: float, cost: float, room: float) -> float:
    """How near a part of a box is to being closed, from 0 to 1."""
    if gain >= 1 or cost >= room:
        return 1.0
    return 1 - (1 - gain) * (1 - cost / room)


@inner
def best_division(
    space: Space,
    low: Ints,
    high: Ints,
    cur: Ints,
    need: float,
    cost: float,
    cutoff: float,
    each: Array,
    below: Array,
    above: Array,
    spare: Array,
) -> tuple[int, int, bool]:
    """Where to divide a box so that both parts come nearest to being closed.

    A part is closed when its cut's bound grows by `need`, or its cost reaches the cutoff. Returns
    feature, cell, and whether the lower part is the more promising one.
    """
    room = cutoff - cost
    best, feature, at, lower_first = -1.0, -1, -1, True
    for f in range(len(low)):
        if low[f] == high[f]:
            continue
        begin, first = space.start[f] + f, space.start[f]
        here = space.cost[first + cur[f]]
        cheapest = np.inf
        for j in range(high[f], low[f], -1):  # the least cost from each cell on
            if each[begin + j] < need:
                cheapest = min(cheapest, space.cost[first + j])
            spare[j] = cheapest
        cheapest = np.inf
        for j in range(low[f], high[f]):
            if each[begin + j] < need:
                cheapest = min(cheapest, space.cost[first + j])
            lower, upper = below[begin + j] / need, above[begin + j + 1] / need
            less = _progress(lower, moved(space, cost, here, cheapest) - cost, room)
            more = _progress(upper, moved(space, cost, here, spare[j + 1]) - cost, room)
            balance = min(j + 1 - low[f], high[f] - j) / (high[f] + 1 - low[f])
            score = (less + 1e-2) * (more + 1e-2) + 1e-7 * balance
            if score > best:
                best, feature, at, lower_first = score, f, j, lower <= upper
    return feature, at, lower_first


@compiled
def search(
    forest: Forest,
    space: Space,
    cuts: Cuts,
    count: int,
    boxes: Boxes,
    cutoff: float,
    margin: float,
    budget: int,
    asked: Ints,
    sizes: Ints,
) -> tuple[int, np.int64]:
    """Look at boxes, the nearest first, until a cell needs to be judged; returns why, and its box.

    Arguments:
        forest, space, cuts, count: the row, and how many cuts it has.
        boxes: the tree of boxes.
        cutoff: what a box must cost less than to be of interest.
        margin: by what fraction of its size a cut must exceed its limit, so that a check that adds
            in another order agrees.
        budget: how many boxes to look at.
        asked: receives the cell.
        sizes: the greatest depth, leaves, edges and slots of a tree, and cells of a feature.
    """
    p = len(space.home)
    near, cur = np.empty(p, np.int32), np.empty(p, np.int32)
    stack, costs = np.empty(8 * sizes[0] + 16, np.int32), np.empty(sizes[0] + 2)
    found = np.empty(sizes[1] + 1, np.int32)
    bound, value = np.empty(count), np.empty(count)
    least_of, stamp = np.empty(sizes[3] + 1), np.empty(sizes[3] + 1, np.int32)
    local, spare = np.empty(sizes[2] + sizes[3] + 1), np.empty(sizes[4] + 1)
    width = space.start[p] + p
    each, below, above = np.empty(width), np.empty(width), np.empty(width)
    box, looked = np.int64(-1), 0  # not literals, for which functions would be compiled again
    while True:
        if boxes.tally[0] + 4 * (_TRIMS + 1) * (p + 1) > len(boxes.key):
            if box >= 0:
                push(boxes, box)
            return FULL, np.int64(-1)
        if box < 0:
            if boxes.tally[1] == 0 or boxes.key[boxes.heap[0]] >= cutoff:
                return DONE, np.int64(-1)
            if looked >= budget:
                return PAUSE, np.int64(-1)
            box = np.int64(pop(boxes))
        looked += 1
        boxes.tally[2] += 1
        closed = divided = False
        for trim in range(_TRIMS + 1):
            low, high = boxes.low[box], boxes.high[box]
            if nearest(space, low, high, near) >= cutoff:
                closed = True
                break
            cost = separate(space, low, high, cur)
            least(
                forest, space, cuts, count, low, high, cur, cost, cutoff, stack, costs, found, bound
            )
            for k in range(count):
                if bound[k] > cuts.limit[k] + margin * cuts.size[k]:
                    boxes.reason[box] = k
                    closed = True
                    break
            if closed:
                break
            values_at(forest, cuts, count, near, value)
            worst = 0.0
            c = np.int64(-1)
            for k in range(count):
                excess = (value[k] - cuts.limit[k]) / cuts.size[k]
                if excess > max(worst, margin):
                    worst, c = excess, np.int64(k)
            if c < 0:
                for f in range(p):
                    asked[f] = near[f]
                return ASK, box
            need = cuts.limit[c] + margin * cuts.size[c] - bound[c]
            slices(
                forest, space, cuts, c, need, low, high, cur, cost, cutoff, stack, costs, found,
                least_of, local, stamp, each, below, above,
            )  # fmt: skip
            before, whole = boxes.key[box], box
            for f in range(p):
                begin, first = space.start[f] + f, space.start[f]
                own = space.cost[first + cur[f]]
                here, there = boxes.low[box, f], boxes.high[box, f]
                start, end = here, there
                while here <= there and (
                    each[begin + here] >= need
                    or moved(space, cost, own, space.cost[first + here]) >= cutoff
                ):
                    here += 1
                if here > there:
                    boxes.reason[box] = c
                    boxes.sliced[box] = f
                    closed = True
                    break
                while (
                    each[begin + there] >= need
                    or moved(space, cost, own, space.cost[first + there]) >= cutoff
                ):
                    there -= 1
                if here > start:
                    divide(boxes, space, box, f, here - 1, near)
                    part = boxes.left[box]
                    boxes.reason[part] = c
                    boxes.sliced[part] = f
                    box = np.int64(boxes.right[box])
                if there < end:
                    divide(boxes, space, box, f, there, near)
                    part = boxes.right[box]
                    boxes.reason[part] = c
                    boxes.sliced[part] = f
                    box = np.int64(boxes.left[box])
            if closed:
                break
            if boxes.key[box] > before and trim < _TRIMS:
                continue
            cost = separate(space, boxes.low[box], boxes.high[box], cur)
            f, at, lower_first = best_division(
                space, boxes.low[box], boxes.high[box], cur, need, cost, cutoff, each, below, above,
                spare,
            )  # fmt: skip
            if f < 0 and box != whole:  # one cell is left, which has not been looked at yet
                push(boxes, box)
                closed = True
                break
            if f < 0:
                for f in range(p):
                    asked[f] = near[f]
                return ASK, box
            divide(boxes, space, box, f, at, near)
            divided = True
            break
        if closed:
            box = np.int64(-1)
        elif divided:
            first, second = np.int64(boxes.left[box]), np.int64(boxes.right[box])
            if not lower_first:
                first, second = second, first
            box = np.int64(-1)
            if cutoff == np.inf and boxes.key[first] < cutoff:
                box = first  # nothing is found yet: go deep
            elif boxes.key[first] < cutoff:
                push(boxes, first)
            if boxes.key[second] < cutoff:
                push(boxes, second)
