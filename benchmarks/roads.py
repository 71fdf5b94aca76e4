"""Shortest paths on a road-like network: `ShortestPath` beside the flow program by HiGHS."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree
from scipy.spatial import Delaunay

from cfopt.problems import MILP, Problem, ShortestPath

_REPEATS = 5


def road_network(
    nodes: int, streets: int, seed: int = 0
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The shortest streets of a triangulation, among them a tree so that all is connected."""
    places = np.random.default_rng(seed).random((nodes, 2))
    corners = Delaunay(places).simplices
    pairs = np.unique(
        np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])),
        axis=0,
    )
    lengths = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    tree = minimum_spanning_tree(csr_array((lengths, pairs.T), shape=(nodes, nodes))).tocoo()
    needed = set(zip(tree.coords[0].tolist(), tree.coords[1].tolist(), strict=True))
    by_length = [(int(u), int(v)) for u, v in pairs[lengths.argsort()]]
    others = [pair for pair in by_length if pair not in needed]
    return [*sorted(needed), *others[: streets - len(needed)]], places


def _flow(problem: ShortestPath) -> MILP:
    number = {node: k for k, node in enumerate(problem.nodes)}
    tails, heads = np.array([[number[u], number[v]] for u, v in problem.edges]).T
    arcs = np.arange(problem.num_costs)
    signs = np.repeat([1.0, -1.0], len(arcs))
    matrix = csr_array((signs, (np.concatenate([tails, heads]), np.tile(arcs, 2))))
    balance = np.zeros(len(number))
    balance[number[problem.source]], balance[number[problem.target]] = 1.0, -1.0
    return MILP(matrix, balance, balance, upper=1)


def _milliseconds(problem: Problem, costs: torch.Tensor) -> float:
    start = time.perf_counter()
    problem.solve(costs)
    return 1e3 * (time.perf_counter() - start)


def _lengths(edges: list[tuple[int, int]], places: np.ndarray) -> np.ndarray:
    tails, heads = np.transpose(edges)
    return np.hypot(*(places[tails] - places[heads]).T)


def compare(nodes: int = 400, streets: int = 700, rows: int = 100) -> list[dict[str, Any]]:
    """The same rows of costs, alternately, with two-way streets and with one-way streets."""
    pairs, places = road_network(nodes, streets)
    both_ways = [*pairs, *((v, u) for u, v in pairs)]
    source = int(places.sum(axis=1).argmin())
    away = dijkstra(
        csr_array((_lengths(both_ways, places), np.transpose(both_ways))), indices=source
    )
    target = int(away.argmax())
    kinds = {
        "two-way streets (cycles)": both_ways,
        "one-way streets, away from the source (no cycles)": [
            (u, v) if away[u] < away[v] else (v, u) for u, v in pairs
        ],
    }
    found = []
    for kind, edges in kinds.items():
        problem = ShortestPath(edges, source, target)
        program = _flow(problem)
        factors = np.random.default_rng(1).uniform(0.5, 3.0, (rows, len(edges)))
        costs = torch.from_numpy(_lengths(edges, places) * factors)
        ours, theirs = problem.solve(costs), program.solve(costs)
        gap = ((ours - theirs) * costs).sum(1).abs().max() / (theirs * costs).sum(1).max()
        times = [
            (
                _milliseconds(problem, costs),
                _milliseconds(program, costs),
            )
            for _ in range(_REPEATS)
        ]
        own, flow = (statistics.median(column) for column in zip(*times, strict=True))
        found.append(
            {
                "network": kind,
                "nodes": len(problem.nodes),
                "arcs": len(edges),
                "rows": rows,
                "ShortestPath, ms": own,
                "MILP (flow program, HiGHS), ms": flow,
                "ratio": flow / own,
                "largest difference in value": float(gap),
            }
        )
    return found
