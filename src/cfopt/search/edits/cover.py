"""Few edits that meet cuts, if the effects of edits add up: best-first search, in a beam."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cfopt._typing import Array, Indices

#: How many sets of edits are kept of each size, and how many ways each of them is extended.
_BEAM, _BRANCHES = 8, 12
#: The most edits.
_DEEPEST = 40
#: What an edit's price counts against how much of the cuts it leaves unmet.
_CHEAPNESS = 1e-3


class Cover(NamedTuple):
    """What was chosen: the edits, by number, and what they cost."""

    chosen: Indices
    price: float


def cheapest_cover(
    price: Array, place: Indices, effect: Array, limit: Array, most: int
) -> Cover | None:
    """Few and cheap edits, at most one at each place, whose effects reach every limit.

        min <price, z>,   effect z <= limit,   sum of z at a place <= 1,   z binary.

    Sets of edits grow by one at a time; of each size those are kept that leave the least unmet, as
    a fraction of what is unmet without edits. Good, not proved to be the best.

    Arguments:
        price: the price of each edit, `(E,)`.
        place: where it is, `(E,)`.
        effect: what it adds to each of C cuts, `(C, E)`.
        limit: what the sum has to stay below, `(C,)`.
        most: how many edits there may be.

    None if no set was enough.
    """
    unmet = np.maximum(-limit, 0.0)
    if not unmet.any():
        return Cover(np.zeros(0, dtype=np.intp), 0.0)
    useful = np.flatnonzero((effect[unmet > 0] < 0).any(axis=0))
    size = max(float(unmet.sum()), 1e-300)
    per_edit, places = (effect[:, useful] / size).T, place[useful]
    beam: list[tuple[Array, tuple[int, ...]]] = [(limit / size, ())]
    for _ in range(min(_DEEPEST, most)):
        grown: dict[frozenset[int], tuple[float, Array, tuple[int, ...]]] = {}
        for room, chosen in beam:
            left = np.maximum(per_edit - room, 0.0).sum(axis=1)
            left[np.isin(places, places[list(chosen)])] = np.inf
            score = left + _CHEAPNESS * price[useful]
            for k in np.argsort(score, kind="stable")[:_BRANCHES].tolist():
                if left[k] < np.maximum(-room, 0.0).sum():
                    added = (*chosen, k)
                    grown.setdefault(frozenset(added), (left[k], room - per_edit[k], added))
        if not grown:
            return None
        done = [chosen for left, _, chosen in grown.values() if left <= 0]
        if done:
            prices = [float(price[useful[list(chosen)]].sum()) for chosen in done]
            best = int(np.argmin(prices))
            return Cover(useful[list(done[best])], prices[best])
        kept = sorted(grown.values(), key=lambda one: one[0])[:_BEAM]
        beam = [(room, chosen) for _, room, chosen in kept]
    return None
