"""The arcs of a graph, all simple paths along them, and the one that a decision takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra

from cfopt._typing import Indices
from cfopt.errors import InputError
from cfopt.problems.arrays import as_array

#: Steps that the search for all paths may take in any case, and for each path.
_STEPS, _STEPS_A_PATH = 20_000, 10


@dataclass(frozen=True)
class Arcs:
    """Arcs from tail to head, with the column of the decision that each belongs to.

    Arguments:
        tails, heads: nodes as numbers below `num_nodes`, `(A,)`.
        columns: two arcs share a column where an edge can be used in both directions, `(A,)`.
        num_nodes: how many nodes there are.
        source, target: the ends of every path.
    """

    tails: Indices
    heads: Indices
    columns: Indices
    num_nodes: int
    source: int
    target: int

    def useful(self) -> Arcs:
        """Without arcs that no simple path can take; none are left where there is no path.

        Those are loops, arcs into the source or out of the target, and arcs that cannot be reached
        from the source or from which the target cannot be reached.
        """
        kept = (self.tails != self.heads) & (self.heads != self.source)
        kept &= self.tails != self.target
        arcs = self._of(kept)
        onward = _reached(arcs.tails, arcs.heads, self.source, self.num_nodes)
        back = _reached(arcs.heads, arcs.tails, self.target, self.num_nodes)
        return arcs._of(onward[arcs.tails] & back[arcs.heads])

    def without(self, columns: Sequence[int]) -> Arcs:
        """Without the arcs of some columns, and what no path can take then."""
        return self._of(~np.isin(self.columns, columns)).useful()

    def through(self, stops: Sequence[tuple[int, int]]) -> Arcs:
        """Without arcs that no path by way of all stops can take, in a graph without cycles.

        A stop is an arc, by its tail and head, or a node, twice. In the order of the graph a path
        goes from the source to the first, from one to the next, and on to the target. What lies
        between two of them lies between no others, so that every path that is left makes all stops.
        """
        levels = self.levels
        assert levels is not None
        kept = np.zeros(len(self.tails), dtype=bool)
        here = self.source
        for tail, head in [*sorted(stops, key=lambda stop: levels[stop[0]]), (self.target, -1)]:
            onward = _reached(self.tails, self.heads, here, self.num_nodes)
            back = _reached(self.heads, self.tails, tail, self.num_nodes)
            if not onward[tail]:
                return self._of(np.zeros_like(kept))
            kept |= onward[self.tails] & back[self.heads]
            kept |= (self.tails == tail) & (self.heads == head)
            here = head
        return self._of(kept)

    def _of(self, kept: NDArray[np.bool_]) -> Arcs:
        parts = (self.tails[kept], self.heads[kept], self.columns[kept])
        return Arcs(*parts, self.num_nodes, self.source, self.target)

    @cached_property
    def levels(self) -> Indices | None:
        """The largest number of arcs on a way to each node, `(N,)`; None if there is a cycle."""
        count, _ = connected_components(
            _matrix(self.tails, self.heads, self.num_nodes), connection="strong"
        )
        if count < self.num_nodes:
            return None
        levels = np.zeros(self.num_nodes, dtype=np.intp)
        while True:
            before = levels.copy()
            np.maximum.at(levels, self.heads, levels[self.tails] + 1)
            if (levels == before).all():
                return levels

    def simple_paths(self, limit: int) -> list[list[int]] | None:
        """Every simple path as a list of arcs; None if they are more than `limit`.

        Also None if finding them takes too long, which dead ends in graphs with cycles may bring
        about.
        """
        if self._count_onward(limit) > limit:
            return None
        leaving: list[list[int]] = [[] for _ in range(self.num_nodes)]
        for arc, tail in enumerate(self.tails):
            leaving[tail].append(arc)
        found: list[list[int]] = []
        path: list[int] = []
        visited = {self.source}
        pending = [iter(leaving[self.source])]
        for _ in range(_STEPS + _STEPS_A_PATH * limit):
            arc = next(pending[-1], -1)
            head = int(self.heads[arc])
            if arc < 0:
                pending.pop()
                if not pending:
                    return found
                visited.remove(int(self.heads[path.pop()]))
            elif head == self.target:
                found.append([*path, arc])
                if len(found) > limit:
                    return None
            elif head not in visited:
                visited.add(head)
                path.append(arc)
                pending.append(iter(leaving[head]))
        return None

    def _count_onward(self, limit: int) -> int:
        """The number of paths that only lead onward, at most limit + 1.

        A lower bound of the number of simple paths, so that large graphs need not be searched.
        """
        onward, back = (
            dijkstra(graph, indices=start, unweighted=True)
            for graph, start in (
                (_matrix(self.tails, self.heads, self.num_nodes), self.source),
                (_matrix(self.heads, self.tails, self.num_nodes), self.target),
            )
        )
        with np.errstate(invalid="ignore"):  # nodes that are left out of the graph
            order = onward - back if self.levels is None else self.levels
        rank = np.empty(self.num_nodes, dtype=np.intp)
        rank[np.argsort(np.nan_to_num(order), kind="stable")] = np.arange(self.num_nodes)
        ways = [0] * self.num_nodes
        ways[self.source] = 1
        for arc in np.argsort(rank[self.tails], kind="stable"):
            tail, head = self.tails[arc], self.heads[arc]
            if rank[tail] < rank[head]:
                ways[head] = min(ways[head] + ways[tail], limit + 1)
        return ways[self.target]


def arcs_of_matrix(
    matrix: ArrayLike | Any, balance: ArrayLike
) -> tuple[Indices, Indices, int, int]:
    """Tails, heads, source and target of a flow program, as `ShortestPath.from_matrix` takes it."""
    dense = matrix if scipy.sparse.issparse(matrix) else as_array("matrix", matrix)
    columns = scipy.sparse.csc_array(dense, dtype=np.float64)
    columns.eliminate_zeros()
    full = (np.diff(columns.indptr) == 2).all()
    if not full or (np.sort(columns.data.reshape(-1, 2), axis=1) != [-1, 1]).any():
        raise InputError("A node-arc matrix needs one +1 and one -1 in each column, else 0.")
    needed, count = as_array("balance", balance), columns.shape[0]
    if needed.shape != (count,) or sorted(needed[needed != 0]) != [-1, 1]:
        raise InputError(
            f"balance needs {count} numbers, one for each row of the matrix: 1 at the source, -1 "
            f"at the target and 0 elsewhere; got {needed!s:.80}."
        )
    rows = columns.indices.reshape(-1, 2).T
    tails, heads = np.where(columns.data[::2] > 0, rows, rows[::-1])
    return tails, heads, int(needed.argmax()), int(needed.argmin())


def _matrix(tails: Indices, heads: Indices, count: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((np.ones(len(tails)), (tails, heads)), shape=(count, count))


def _reached(tails: Indices, heads: Indices, start: int, count: int) -> NDArray[np.bool_]:
    """Which nodes can be reached from one: `(N,)`."""
    reached = np.zeros(count, dtype=bool)
    matrix = _matrix(tails, heads, count)
    reached[breadth_first_order(matrix, start, return_predecessors=False)] = True
    return reached


class End(StrEnum):
    """How a walk ends, to follow "it"."""

    ARRIVED = "arrives"
    BROKEN = "breaks off there"
    FORKED = "leaves it more than once"
    CIRCULAR = "returns to it"


class Walk(NamedTuple):
    """The nodes that are visited in order, the arcs between them, those not used, and the end.

    Where it does not arrive, the last node is where it ends.
    """

    nodes: list[int]
    taken: list[int]
    left: set[int]
    end: End

    @property
    def is_path(self) -> bool:
        """Whether it leads to the goal, and no arc is left over."""
        return self.end is End.ARRIVED and not self.left


def walk(
    arcs: Sequence[Sequence[int]], chosen: Iterable[int], start: int, goal: int, directed: bool
) -> Walk:
    """Follow chosen arcs, each once, while there is one way on and no node comes twice."""
    left, onward = set(chosen), defaultdict(set)
    for arc in left:
        for node in arcs[arc][:1] if directed else arcs[arc]:
            onward[node].add(arc)
    nodes, taken = [start], list[int]()
    while nodes[-1] != goal:
        ways = onward[nodes[-1]] & left
        if len(ways) != 1:
            return Walk(nodes, taken, left, End.FORKED if ways else End.BROKEN)
        (arc,) = ways
        left.remove(arc)
        taken.append(arc)
        first, second = arcs[arc]
        nodes.append(int(second if nodes[-1] == first else first))
        if nodes[-1] in nodes[:-1]:
            return Walk(nodes, taken, left, End.CIRCULAR)
    return Walk(nodes, taken, left, End.ARRIVED)
