"""Cheapest paths over the arcs of a graph, for all rows of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from cfopt._typing import Array, Indices
from cfopt.errors import SolverError
from cfopt.problems.arcs import Arcs

#: Numbers that are swept at once: what fits a processor's cache.
_NUMBERS_AT_ONCE = 131_072
#: Around a cycle costs may fall by this fraction of all costs and still count as rounding.
_ROUNDING = 1e-13
_NEGATIVE_CYCLE = (
    "a cheapest path needs costs without a negative cycle, but going around one of this graph's "
    "cycles costs less than nothing; predict costs >= 0, for example with a Softplus as the last "
    "layer"
)


class LevelSweep:
    """Bellman's recursion over the levels of an acyclic graph, all rows of a batch at once.

    Costs may have any sign. Of equally cheap arcs into a node the first listed one is taken.
    """

    def __init__(self, arcs: Arcs) -> None:
        assert arcs.levels is not None
        degrees = np.bincount(arcs.heads, minlength=arcs.num_nodes)
        # Nodes by level, those with many arcs first: the k-th arcs into the nodes of a level then
        # enter the first few of them, and one operation relaxes all k-th arcs.
        order = np.lexsort((-degrees, arcs.levels))
        place = np.empty(arcs.num_nodes, dtype=np.intp)
        place[order] = np.arange(arcs.num_nodes)
        heads, level = place[arcs.heads], arcs.levels[arcs.heads]
        turn = _turns(heads)
        #: Arcs in the order in which they are relaxed.
        self._order = np.lexsort((heads, turn, level))
        into, level, turn = (which[self._order] for which in (heads, level, turn))
        self._columns = arcs.columns[self._order]
        # Place 0 is the source's. The least cost of a way to another node takes the place of the
        # cost of the first arc into it.
        slot = np.zeros(arcs.num_nodes, dtype=np.intp)
        slot[into[turn == 0]] = 1 + np.flatnonzero(turn == 0)
        tails = slot[place[arcs.tails[self._order]]]
        #: From the place of an arc to that of its tail.
        self._before = np.concatenate([[0], tails])
        self._target = slot[place[arcs.target]]
        self._labels = np.arange(1 + len(heads), dtype=np.int32)[:, None]  # half the memory to move
        #: For each level its arcs, the places of their tails, and which of the k-th arcs compete
        #: with which of the first ones.
        self._levels: list[tuple[slice, Indices, list[tuple[slice, slice]]]] = []
        for start, end in _runs(level):
            first = 1 + start
            others = [
                (slice(first + a, first + b), slice(first, first + b - a))
                for a, b in _runs(turn[start:end])[1:]
            ]
            self._levels.append((slice(first, 1 + end), tails[start:end], others))

    def arcs_of(self, prices: Array) -> tuple[Indices, Indices]:
        """The arcs of all paths, and the row that each belongs to: `(B, m) -> (R,), (R,)`."""
        at_once = max(1, _NUMBERS_AT_ONCE // len(self._order))
        found = []
        for start in range(0, len(prices), at_once):
            rows, places = _joined(self._back(self._sweep(prices[start : start + at_once])))
            found.append((start + rows, self._order[places - 1]))
        return _joined(found)

    def _sweep(self, prices: Array) -> NDArray[np.int32]:
        """The last arc of a cheapest way to each node, by its place: `(B, m) -> (1 + A, B)`."""
        reach = np.empty((len(self._labels), len(prices)))
        reach[0] = 0.0
        np.take(prices.T, self._columns, axis=0, out=reach[1:], mode="clip")  # "raise" would copy
        last = np.repeat(self._labels, len(prices), axis=1)
        for arcs, tails, others in self._levels:
            offers = reach[arcs]
            offers += reach.take(tails, axis=0)
            for turn, first in others:
                offer, least = reach[turn], reach[first]
                np.copyto(last[first], self._labels[turn], where=offer < least)
                np.minimum(offer, least, out=least)
        return last

    def _back(self, last: NDArray[np.int32]) -> Iterator[tuple[Indices, Indices]]:
        """Rows, and the arcs of their paths from the target back."""
        rows = np.arange(last.shape[1])
        at = np.full(len(rows), self._target)
        while len(rows):
            taken = last[at, rows]
            yield rows, taken
            at = self._before[taken]
            if not at.all():  # some have arrived at the source
                rows, at = rows[at > 0], at[at > 0]


def _joined(steps: Iterable[tuple[Indices, Indices]]) -> tuple[Indices, Indices]:
    nothing = np.empty(0, dtype=np.intp)
    rows, arcs = zip((nothing, nothing), *steps, strict=True)
    return np.concatenate(rows), np.concatenate(arcs)


def _turns(heads: Indices) -> Indices:
    """For each arc the number of arcs listed before it that enter the same node: `(A,)`."""
    by_head = np.argsort(heads, kind="stable")
    turns = np.empty_like(heads)
    starts = np.searchsorted(heads[by_head], heads[by_head])
    turns[by_head] = np.arange(len(heads)) - starts
    return turns


def _runs(values: Indices) -> list[tuple[int, int]]:
    """Start and end of each run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1)).tolist()
    return list(zip(starts, [*starts[1:], len(values)], strict=True))


class Dijkstra:
    """Dijkstra's algorithm, row by row, for graphs with cycles.

    Negative costs are first made non-negative by Johnson's potentials, which changes no comparison
    of two paths; a row with a negative cycle has none, and SolverError says so.
    """

    def __init__(self, arcs: Arcs) -> None:
        self._arcs = arcs
        #: Arcs sorted by (tail, head), where parallel ones follow one another.
        self._order = np.lexsort((arcs.heads, arcs.tails))
        self._keys = arcs.tails * arcs.num_nodes + arcs.heads
        self._pairs, self._starts = np.unique(self._keys[self._order], return_index=True)
        tails, heads = np.divmod(self._pairs, arcs.num_nodes)
        pointers = np.searchsorted(tails, np.arange(arcs.num_nodes + 1))
        #: Pairs of pairs that lead there and back.
        _, self._there, self._back_again = np.intersect1d(
            self._pairs, heads * arcs.num_nodes + tails, assume_unique=True, return_indices=True
        )
        self._graph = scipy.sparse.csr_array(
            (np.zeros(len(heads)), heads.astype(np.int32), pointers.astype(np.int32)),
            shape=(arcs.num_nodes, arcs.num_nodes),
        )

    def arcs_of(self, prices: Array) -> tuple[Indices, Indices]:
        """The arcs of all paths, and the row that each belongs to: `(B, m) -> (R,), (R,)`."""
        costs = prices[:, self._arcs.columns]
        negative = np.flatnonzero((costs < 0).any(axis=1))
        if len(negative):
            costs[negative] = self._reduced(costs[negative])
        sorted_costs = costs[:, self._order]
        cheapest = np.minimum.reduceat(sorted_costs, self._starts, axis=1)
        came_from = np.empty((len(prices), self._arcs.num_nodes), dtype=np.intp)
        for row, weights in enumerate(cheapest):
            self._graph.data = weights
            _, came_from[row] = dijkstra(
                self._graph, indices=self._arcs.source, return_predecessors=True
            )
        return _joined(self._back(came_from, sorted_costs, cheapest))

    def _back(
        self, came_from: Indices, costs: Array, cheapest: Array
    ) -> Iterator[tuple[Indices, Indices]]:
        """Rows, and the arcs of their paths from the target back."""
        rows = np.arange(len(came_from))
        at = np.full(len(rows), self._arcs.target)
        while len(rows):
            before = came_from[rows, at]
            pair = np.searchsorted(self._pairs, before * self._arcs.num_nodes + at)
            yield rows, self._order[self._first_cheapest(rows, pair, costs, cheapest)]
            going = before != self._arcs.source
            rows, at = rows[going], before[going]

    def _first_cheapest(
        self, rows: Indices, pair: Indices, costs: Array, cheapest: Array
    ) -> Indices:
        """The first of the cheapest among parallel arcs, by its place: `(R,), (R,) -> (R,)`."""
        found: Indices = self._starts[pair]
        too_high = costs[rows, found] > cheapest[rows, pair]
        while too_high.any():
            found[too_high] += 1
            too_high = costs[rows, found] > cheapest[rows, pair]
        return found

    def _reduced(self, costs: Array) -> Array:
        """`cost + potential(tail) - potential(head) >= 0` by Bellman and Ford: `(R, A) -> (R, A)`.

        A potential is the cost of the cheapest way to the node. If it still falls after as many
        rounds as there are nodes, there is a negative cycle. Most are found before, by going there
        and back.
        """
        slack = _ROUNDING * np.abs(costs).sum(axis=1)[:, None]
        cheapest = np.minimum.reduceat(costs[:, self._order], self._starts, axis=1)
        if (cheapest[:, self._there] + cheapest[:, self._back_again] < -slack).any():
            raise SolverError(_NEGATIVE_CYCLE)
        by_head = np.argsort(self._arcs.heads, kind="stable")
        heads, starts = np.unique(self._arcs.heads[by_head], return_index=True)
        tails, offers = self._arcs.tails[by_head], costs[:, by_head]
        reach = np.full((len(costs), self._arcs.num_nodes), np.inf)
        reach[:, self._arcs.source] = 0.0
        for _ in range(self._arcs.num_nodes):
            offered = np.minimum.reduceat(reach[:, tails] + offers, starts, axis=1)
            better = offered < reach[:, heads] - slack
            if not better.any():
                used = np.zeros(self._arcs.num_nodes, dtype=bool)
                used[[self._arcs.source, *heads]] = True
                potential = np.where(used, reach, 0.0)
                found = costs + potential[:, self._arcs.tails] - potential[:, self._arcs.heads]
                return np.maximum(found, 0.0)  # below 0 by rounding only
            reach[:, heads] = np.where(better, offered, reach[:, heads])
        raise SolverError(_NEGATIVE_CYCLE)
