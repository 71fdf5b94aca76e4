"""Where the places of a network are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from cfopt._typing import Array

Arcs = Sequence[tuple[int, int]]
#: Between the middles of two arcs that join the same places, where an arc has the length 1.
_GAP = 0.3
#: How often the places of each layer are put in the order of their neighbours.
_SWEEPS = 8


def scaled(at: Array, arcs: Arcs) -> Array:
    """Positions `(n, 2)` from 0 on, of which an arc is about 1 long; none are drawn too near."""
    if not len(at):
        return at
    ends = _ends(arcs)
    lengths = np.hypot(*(at[ends[:, 0]] - at[ends[:, 1]]).T)
    usual = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
    if len(at) > 1:
        nearest = float(np.quantile(cKDTree(at).query(at, k=2)[0][:, 1], 0.05))
        usual = min(usual, max(1.4 * nearest, usual / 2))
    # What was scaled before stays as it is.
    unit = 1.0 if abs(usual - 1) < 1e-3 else usual
    placed: Array = ((at - at.min(axis=0)) / unit).round(4)
    return placed


def layered(count: int, arcs: Arcs, start: int) -> Array:
    """Positions for places that have none: in columns by the number of arcs from the start.

    Within a column, places lie in the order of their neighbours, so that few arcs cross.
    """
    ends = _ends(arcs)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    hops = dijkstra(joined, directed=False, unweighted=True, indices=start)
    hops = np.where(np.isfinite(hops), hops, hops[np.isfinite(hops)].max() + 1)
    at = np.column_stack([hops, np.zeros(count)])
    for _ in range(_SWEEPS):
        pull, degree = np.zeros(count), np.zeros(count)
        for here, there in (ends.T, ends.T[::-1]):
            np.add.at(pull, here, at[there, 1])
            np.add.at(degree, here, 1.0)
        wanted = pull / np.maximum(degree, 1)
        for hop in np.unique(hops):
            column = np.flatnonzero(hops == hop)
            rank = np.argsort(np.argsort(wanted[column], kind="stable"), kind="stable")
            at[column, 1] = rank - (len(column) - 1) / 2
    return at


def bends(arcs: Arcs) -> tuple[float, ...]:
    """How far the middle of each arc lies to the right of the straight way, seen along it.

    0 for most. Arcs that join the same two places lie side by side, and of two that run against
    each other each keeps to its own right.
    """
    groups: dict[frozenset[int], list[int]] = {}
    for k, arc in enumerate(arcs):
        groups.setdefault(frozenset(arc), []).append(k)
    found = [0.0] * len(arcs)
    for group in groups.values():
        backward_first = sorted(group, key=lambda k: arcs[k][0] < arcs[k][1])
        for slot, k in enumerate(backward_first):
            side = _GAP * (slot - (len(group) - 1) / 2)
            found[k] = side if arcs[k][0] < arcs[k][1] else -side
    return tuple(found)


def _ends(arcs: Arcs) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    return np.array(arcs, dtype=np.intp).reshape(-1, 2)
