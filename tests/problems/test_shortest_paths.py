"""Grids and maps, beyond the contract."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from tests.pipelines import normal

from cfopt.errors import InputError
from cfopt.problems import GridShortestPath, TerrainShortestPath


def test_grid_arcs_come_in_the_order_of_pyepo() -> None:
    from pyepo.model.ort.shortestpath import shortestPathModel

    for shape in ((5, 5), (3, 7), (7, 3)):
        assert GridShortestPath(*shape).arcs == shortestPathModel(shape).arcs


def test_listing_and_sweep_agree_where_both_apply() -> None:
    problem = GridShortestPath(5, 4)
    costs = normal(50, problem.num_costs).numpy()
    assert problem._finite is not None
    listed = problem.optimise(costs)
    problem._finite = None
    assert np.array_equal(listed, problem.optimise(costs))


def test_a_large_grid_is_as_short_as_networkx_says() -> None:
    problem = GridShortestPath(20, 13)
    costs = normal(3, problem.num_costs)
    for row, decision in zip(costs, problem.solve(costs), strict=True):
        graph = networkx.DiGraph()
        for arc, cost in zip(problem.arcs, row.tolist(), strict=True):
            graph.add_edge(*arc, weight=cost)
        length = networkx.bellman_ford_path_length(graph, 0, 20 * 13 - 1)
        assert float(row @ decision) == pytest.approx(length, rel=1e-12)


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("ends", [((0, 0), None), ((3, 1), (0, 4)), ((2, 2), (2, 3))])
def test_terrain_paths_are_as_short_as_networkx_says(neighbours: int, ends: tuple) -> None:
    problem = TerrainShortestPath(4, 6, neighbours, *ends)
    costs = normal(20, 24).abs()
    costs[10:] = (costs[10:] * 2).floor()  # ties and cells that cost nothing
    decisions = problem.solve(costs)
    assert problem.is_feasible(decisions).all()
    reach = 1 if neighbours == 4 else 2
    for row, decision in zip(costs, decisions, strict=True):
        graph = networkx.DiGraph()
        for a in np.ndindex(4, 6):
            for b in np.ndindex(4, 6):
                step = np.abs(np.subtract(a, b))
                if 1 <= step.sum() <= reach and step.max() == 1:
                    graph.add_edge(a, b, weight=float(row[b[0] * 6 + b[1]]))
        start, goal = problem.start, problem.goal
        length = networkx.dijkstra_path_length(graph, start, goal)
        first = float(row[start[0] * 6 + start[1]])
        assert float(row @ decision) == pytest.approx(length + first, abs=1e-12)


def test_negative_terrain_is_solved_as_the_flow_program_by_another_solver() -> None:
    problem = TerrainShortestPath(3, 4)
    costs = normal(5, 12)
    moves = [
        (a, b)
        for a in range(12)
        for b in range(12)
        if a != b and max(abs(a // 4 - b // 4), abs(a % 4 - b % 4)) == 1
    ]
    balance = np.zeros((12, len(moves)))
    for k, (a, b) in enumerate(moves):
        balance[a, k], balance[b, k] = -1, 1
    ends = np.zeros(12)
    ends[0], ends[-1] = -1, 1
    for row, decision in zip(costs.numpy(), problem.solve(costs).numpy(), strict=True):
        into = np.array([row[b] for _, b in moves])
        other = linprog(into, A_eq=balance, b_eq=ends, bounds=(0, 1), method="highs-ipm")
        assert row @ decision == pytest.approx(other.fun + row[0], abs=1e-7)


def test_a_mixed_batch_of_maps_is_solved_row_by_row_as_it_should() -> None:
    problem = TerrainShortestPath(3, 3)
    costs = normal(6, 9).abs()
    costs[2, 4] = -1.0
    single = torch.cat([problem.solve(row[None]) for row in costs])
    assert torch.equal(problem.solve(costs), single)


def test_a_set_of_cells_that_is_no_path_is_refused() -> None:
    problem = TerrainShortestPath(3, 3)
    gap = torch.zeros(1, 9, dtype=torch.float64)
    gap[0, [0, 8]] = 1
    assert problem.explain_faults(gap) == ["is not a path from start to goal"]
    half = problem.solve(normal(1, 9).abs()) / 2
    assert "whole numbers" in problem.explain_faults(half)[0]


def test_visits_of_cells_are_a_path_where_the_flow_program_finds_a_flow() -> None:
    problem, rng = TerrainShortestPath(3, 3), np.random.default_rng(0)
    paths = problem.optimise(rng.uniform(0.1, 1.0, (60, 9)))
    # Some have a cell more or less, or visits that cancel out.
    changed = paths + rng.integers(-1, 2, paths.shape) * (rng.random(paths.shape) < 0.15)
    for visits in (paths, changed):
        flows = problem._flow_program().faults(visits)
        assert [bool(fault) for fault in problem.faults(visits)] == [bool(one) for one in flows]
    assert 10 < sum(bool(fault) for fault in problem.faults(changed)) < 50


@pytest.mark.parametrize(
    "make",
    [
        lambda: GridShortestPath(1, 1),
        lambda: GridShortestPath(0, 5),
        lambda: TerrainShortestPath(3, 3, neighbours=6),
        lambda: TerrainShortestPath(3, 3, start=(3, 0)),
        lambda: TerrainShortestPath(3, 3, start=(2, 2)),
    ],
)
def test_impossible_grids_are_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


def test_the_runner_up_is_the_second_best_path() -> None:
    small, large = GridShortestPath(4, 4), GridShortestPath(6, 8)
    for problem in (small, large):
        prices = normal(5, problem.num_costs)
        best = problem.solve(prices)
        second = problem.runner_up(prices, best).decisions
        listed = problem.decisions()
        ranked = (prices @ listed.T).sort(1).values
        assert torch.allclose((prices * second).sum(1), ranked[:, 1], rtol=1e-9)
        assert (second != best).any(1).all()


def test_where_costs_are_negative_the_runner_up_of_a_map_is_the_second_best_walk() -> None:
    problem = TerrainShortestPath(2, 2, neighbours=4)
    sources, targets = problem.moves()
    walks = set()
    for made in itertools.product([0, 1], repeat=len(sources)):
        taken = np.array(made)
        into, out = (np.bincount(ends, taken, minlength=4) for ends in (targets, sources))
        if np.array_equal(into - out, [-1, 0, 0, 1]):
            visits = into + np.eye(4)[0]
            walks.add(tuple(visits))
    listed = torch.tensor(sorted(walks), dtype=torch.float64)
    prices = normal(30, 4)
    prices = prices[(prices < 0).any(1)]
    best = problem.solve(prices)
    second = problem.runner_up(prices, best)
    assert not second.failures
    ranked = (prices @ listed.T).sort(1).values
    assert torch.allclose((prices * second.decisions).sum(1), ranked[:, 1])
    assert (second.decisions != best).any(1).all()


def test_start_and_goal_may_be_lists_or_arrays() -> None:
    costs = normal(5, 9)
    expected = TerrainShortestPath(3, 3, start=(2, 0), goal=(0, 1)).solve(costs)
    assert torch.equal(TerrainShortestPath(3, 3, start=[2, 0], goal=[0, 1]).solve(costs), expected)
    start, goal = np.array([2, 0]), np.array([0, 1])
    assert torch.equal(TerrainShortestPath(3, 3, start=start, goal=goal).solve(costs), expected)
    with pytest.raises(InputError, match="differ"):
        TerrainShortestPath(3, 3, start=[2, 2])


@pytest.mark.parametrize(
    "problem", [GridShortestPath(6, 8), GridShortestPath(3, 3), TerrainShortestPath(3, 3, 4)]
)
def test_costs_whose_sum_overflows_fail_alone(problem) -> None:
    prices = normal(4, problem.num_costs).abs()
    prices[2] = 1.5e308
    solved = problem.attempt(prices)
    assert list(solved.failures) == [2]
    assert solved.decisions[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1e6, 1e12])
def test_the_size_of_the_costs_does_not_matter(scale: float) -> None:
    """Also not where they are negative and a linear program is solved."""
    problem = TerrainShortestPath(3, 4)
    costs = normal(10, 12)
    assert torch.equal(problem.solve(scale * costs), problem.solve(costs))
