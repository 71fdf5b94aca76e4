"""The cheapest path through any network: roads, pipes, flights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.errors import InputError
from cfopt.problems.arcs import Arcs, End, arcs_of_matrix, walk
from cfopt.problems.arrays import as_array
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.finite import Finite
from cfopt.problems.network_scene import Network
from cfopt.problems.path_program import PathProgram
from cfopt.problems.path_solvers import Dijkstra, LevelSweep
from cfopt.problems.solved import FEASIBILITY_TOLERANCE, Solved

Node = Hashable
#: Up to this many paths, scoring them all beats a sweep, and Dijkstra's algorithm.
_FEW, _FEW_WITH_CYCLES = 100, 1000
#: Up to this many paths, scoring those that meet conditions beats a program.
_LISTED_PATHS = 20_000
#: Numbers that a list of all paths may have.
_LISTED_NUMBERS = 20_000_000


@registry.problems.register
class ShortestPath(Problem):
    """The cheapest simple path from a source to a target, where each edge has a predicted cost.

    A decision has one entry for each edge: 1 if the path takes it, else 0. Where there are few
    simple paths all of them are scored, and without cycles the graph is swept, both for a whole
    batch at once and for costs of any sign. Otherwise each row takes a run of Dijkstra's algorithm;
    costs may then be negative as long as no cycle is, since else the cheapest simple path is
    NP-hard to find: such a row fails with a SolverError. On undirected edges, which can be gone
    back and forth, any negative cost makes a negative cycle. A predictor of costs that must be >= 0
    can end in `torch.nn.Softplus()`.

    Arguments:
        edges: pairs of nodes, in the order of the costs; a node is anything hashable, such as a
            name. Parallel edges are allowed. A loop is never taken.
        source, target: where paths start and end.
        directed: whether an edge can be taken from its first to its second node only.
        coordinates: where nodes are drawn, as {node: (x, y)}.
    """

    binary = True

    def __init__(
        self,
        edges: Iterable[tuple[Node, Node]],
        source: Node,
        target: Node,
        *,
        directed: bool = True,
        coordinates: Mapping[Any, Sequence[float]] | None = None,
    ) -> None:
        self.edges = tuple(_pair(edge) for edge in edges)
        self.nodes = tuple(dict.fromkeys(node for edge in self.edges for node in edge))
        self._number = {node: k for k, node in enumerate(self.nodes)}
        for role, node in (("source", source), ("target", target)):
            if node not in self._number:
                raise InputError(f"The {role} {node!r} is not a node of any edge of the network.")
        if source == target:
            raise InputError(f"source and target need to differ, got {source!r} for both.")
        self.source, self.target, self.directed = source, target, directed
        self.num_costs = len(self.edges)
        ends = np.array([[self._number[u], self._number[v]] for u, v in self.edges], dtype=np.intp)
        self._ends: Indices = ends
        self._end_pairs: list[list[int]] = ends.tolist()
        columns = np.arange(len(ends))
        if not directed:
            ends, columns = np.concatenate([ends, ends[:, ::-1]]), np.tile(columns, 2)
        tails, heads = ends.T
        start, end = self._number[source], self._number[target]
        self._arcs = Arcs(tails, heads, columns, len(self.nodes), start, end).useful()
        if not len(self._arcs.tails):
            raise InputError(
                f"ShortestPath needs a path from source to target, but no path leads from "
                f"{source!r} to {target!r}. Check the edges and their direction."
            )
        cyclic = self._arcs.levels is None
        self._solver = Dijkstra(self._arcs) if cyclic else LevelSweep(self._arcs)
        listed = self.list_decisions(_FEW_WITH_CYCLES if cyclic else _FEW)
        self._finite = None if listed is None else Finite(listed)
        #: Where each node lies, `(N, 2)`, y upwards; None if that was not said.
        self.coordinates = None if coordinates is None else self._placed(coordinates)

    @staticmethod
    def from_networkx(
        graph: Any,
        source: Node,
        target: Node,
        coordinates: Mapping[Any, Sequence[float]] | None = None,
    ) -> ShortestPath:
        """A network from a networkx graph, directed or not; costs in the order of `graph.edges()`.

        Arguments:
            coordinates: where nodes are drawn; by default what the nodes have as `pos`, or as `x`
                and `y` (as OSMnx does).
        """
        pairs = [(edge[0], edge[1]) for edge in graph.edges()]
        if coordinates is None:
            known = {node: _position(data) for node, data in graph.nodes(data=True)}
            coordinates = {node: place for node, place in known.items() if place is not None}
            if not all(node in coordinates for pair in pairs for node in pair):
                coordinates = None
        directed = graph.is_directed()
        return ShortestPath(pairs, source, target, directed=directed, coordinates=coordinates)

    @staticmethod
    def from_matrix(
        matrix: ArrayLike | Any,
        balance: ArrayLike,
        *,
        nodes: Sequence[Node] | None = None,
        coordinates: Mapping[Any, Sequence[float]] | None = None,
    ) -> ShortestPath:
        """A directed network from the constraints `matrix @ y = balance` of its flow program.

        Which of the two signs marks the start of an arc makes no difference to the decisions; here
        an arc starts where its column has +1.

        Arguments:
            matrix: dense or `scipy.sparse`, `(nodes, arcs)`; each column has one +1 and one -1.
            balance: 1 at the source, -1 at the target, else 0, `(nodes,)`.
            nodes: a name for each row; its number by default.
            coordinates: where nodes are drawn, as {node: (x, y)}.
        """
        tails, heads, source, target = arcs_of_matrix(matrix, balance)
        names = nodes if nodes is not None else range(np.shape(balance)[0])
        if len(names) != np.shape(balance)[0] or len(set(names)) != len(names):
            raise InputError(
                f"nodes needs {np.shape(balance)[0]} different names, one for each row of the "
                f"matrix; got {names!r:.80}."
            )
        edges = [(names[u], names[v]) for u, v in zip(tails, heads, strict=True)]
        return ShortestPath(edges, names[source], names[target], coordinates=coordinates)

    @property
    def decision_names(self) -> tuple[str, ...] | None:
        """Edges by their nodes; parallel ones are numbered."""
        return self._edge_names if self._decision_names is None else self._decision_names

    @cached_property
    def _edge_names(self) -> tuple[str, ...]:
        sign = "→" if self.directed else "↔"
        plain = [f"{u} {sign} {v}" for u, v in self.edges]
        several, seen, names = Counter(plain), Counter[str](), []
        for name in plain:
            seen[name] += 1
            names.append(f"{name} ({seen[name]})" if several[name] > 1 else name)
        return tuple(names)

    def scene(self) -> Network:
        """The network itself; nodes without coordinates lie in columns from source to target."""
        at = [] if self.coordinates is None else self.coordinates.tolist()
        return Network(
            entries=self.entries(),
            places=tuple(map(str, self.nodes)),
            positions=tuple((x, -y) for x, y in at),
            arcs=tuple((int(u), int(v)) for u, v in self._ends),
            directed=self.directed,
            start=self._number[self.source],
            goal=self._number[self.target],
        )

    def optimise(self, prices: Array) -> Array:
        """A cheapest path of each row; which one in a tie depends on that row's costs alone."""
        if self._finite is not None:
            return self._finite.optimise(prices)
        decisions = np.zeros_like(prices)
        rows, arcs = self._solver.arcs_of(prices)
        decisions[rows, self._arcs.columns[arcs]] = 1.0
        return decisions

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        if self._finite is not None:
            return self._finite.runner_up(prices, decisions)
        return super().runner_up(prices, decisions)

    def distinguishing_columns(self, decision: Tensor) -> Tensor:
        """The path's own edges: another path misses one of them."""
        return decision.nonzero().flatten()

    def nodes_of(self, decision: Array) -> list[Node]:
        """The nodes of a path in their order, from source to target; InputError if it is none."""
        visited, fault = self._walk(np.asarray(decision, dtype=np.float64))
        if fault:
            raise InputError(f"The decision {fault}.")
        return visited

    def faults(self, decisions: Array) -> list[str]:
        return [self._walk(decision)[1] for decision in decisions]

    def _walk(self, decision: Array) -> tuple[list[Node], str]:
        """The nodes on the way from the source, and why they are not a path, or ""."""
        odd = np.flatnonzero(np.abs(decision * (1 - decision)) > FEASIBILITY_TOLERANCE)
        if len(odd):
            name, value = self.cached_scene.names[odd[0]], decision[odd[0]]
            return [], (
                f"is not a path: {name!r} is {value:.3g}, but an edge is taken (1) or not (0)"
            )
        chosen = np.flatnonzero(decision > 0.5).tolist()
        start, goal = self._number[self.source], self._number[self.target]
        way = walk(self._end_pairs, chosen, start, goal, self.directed)
        visited = [self.nodes[k] for k in way.nodes]
        if way.end is End.CIRCULAR:
            return visited, f"is not a path: it returns to {visited[-1]!r}"
        if way.end is not End.ARRIVED:
            return visited, f"is not a path: it reaches {visited[-1]!r} and {way.end}"
        if way.left:
            name = self.cached_scene.names[min(way.left)]
            return visited, f"is not a path: it also takes {name!r}, which is not on the way"
        return visited, ""

    def list_decisions(self, limit: int) -> Array | None:
        limit = min(limit, _LISTED_NUMBERS // self.num_costs)
        paths = self._arcs.simple_paths(limit)
        if paths is None:
            return None
        decisions = np.zeros((len(paths), self.num_costs))
        for row, arcs in enumerate(paths):
            decisions[row, self._arcs.columns[arcs]] = 1.0
        return decisions

    def narrowed(self, conditions: Conditions) -> Problem | None:
        """By a list where paths are few, else by leaving out arcs, else by a program of flows.

        Without cycles, arcs that must be taken leave a graph in which every path takes them; with
        cycles, a cheapest walk along them might cross itself, and is not a path.
        """
        if self._finite is not None:
            return self._finite.narrowed(conditions)
        forced, forbidden, rest = conditions.split()
        arcs = self._arcs.without(forbidden)
        if not len(arcs.tails) or not all(np.isin(group, arcs.columns).any() for group in forced):
            return None
        stops = [self._stop(arcs, group) for group in forced]
        if not len(rest) and (not stops or (arcs.levels is not None and None not in stops)):
            arcs = arcs.through([stop for stop in stops if stop is not None]) if stops else arcs
            return self._along(arcs) if len(arcs.tails) else None
        listed = self._along(arcs).list_decisions(_LISTED_PATHS)
        if listed is not None:
            return Finite(listed).narrowed(conditions)
        columns = scipy.sparse.csr_array(
            (np.ones(len(arcs.tails)), (arcs.columns, np.arange(len(arcs.tails)))),
            shape=(self.num_costs, len(arcs.tails)),
        )
        return PathProgram.of(arcs, columns, np.zeros(self.num_costs), conditions)

    @staticmethod
    def _stop(arcs: Arcs, group: Indices) -> tuple[int, int] | None:
        """The arc or node that a path must pass to take one of some columns; None if neither."""
        (taken,) = np.nonzero(np.isin(arcs.columns, group))
        heads, tails = set(arcs.heads[taken].tolist()), set(arcs.tails[taken].tolist())
        parallel = (arcs.tails == arcs.tails[taken[0]]) & (arcs.heads == arcs.heads[taken[0]])
        if len(taken) == 1 and parallel.sum() == 1:
            return int(arcs.tails[taken[0]]), int(arcs.heads[taken[0]])
        if len(heads) == 1 and len(taken) == int((arcs.heads == arcs.heads[taken[0]]).sum()):
            return (*heads, *heads)
        if len(tails) == 1 and len(taken) == int((arcs.tails == arcs.tails[taken[0]]).sum()):
            return (*tails, *tails)
        return None

    def _along(self, arcs: Arcs) -> ShortestPath:
        """The same network, of which only some arcs can be taken."""
        other = copy(self)
        other._arcs = arcs
        other._solver = Dijkstra(arcs) if arcs.levels is None else LevelSweep(arcs)
        other.__dict__.pop("_listed", None)
        return other

    def _placed(self, coordinates: Mapping[Any, Sequence[float]]) -> Array:
        missing = [node for node in self.nodes if node not in coordinates]
        if missing:
            raise InputError(
                f"coordinates needs a place for each node, but has none for {missing[0]!r} "
                f"({len(missing)} of {len(self.nodes)} are missing)."
            )
        places = as_array("coordinates", [coordinates[node] for node in self.nodes])
        if places.shape != (len(self.nodes), 2) or not np.isfinite(places).all():
            raise InputError("coordinates needs two finite numbers (x, y) for each node.")
        return places


def _pair(edge: Any) -> tuple[Node, Node]:
    try:
        first, second = edge
        hash((first, second))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"An edge needs to be a pair of hashable nodes, got {edge!r:.60}."
        ) from error
    return first, second


def _position(data: Mapping[str, Any]) -> Sequence[float] | None:
    """Where networkx users keep coordinates."""
    if "pos" in data:
        place: Sequence[float] = data["pos"]
        return place
    return (data["x"], data["y"]) if {"x", "y"} <= data.keys() else None
