"""Every problem keeps the contract."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from cfopt.problems import (
    MILP,
    Finite,
    GridShortestPath,
    Knapsack,
    Oracle,
    Problem,
    TerrainShortestPath,
)
from cfopt.testing import ProblemContract

WEIGHTS = np.array([[3.0, 5.0, 4.0, 7.0, 2.0, 6.0], [4.0, 1.0, 6.0, 3.0, 5.0, 2.0]])
CAPACITIES = np.array([11.0, 9.0])


def packings() -> torch.Tensor:
    """Every set of items that fits, one by one."""
    sets = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    return torch.from_numpy(sets[(sets @ WEIGHTS.T <= CAPACITIES).all(axis=1)])


def walks(rows: int, cols: int, problem: Problem) -> torch.Tensor:
    """Every path of a grid, by walking it step by step."""
    index = {arc: k for k, arc in enumerate(problem.arcs)}
    paths, ends = [], [(0, ())]
    while ends:
        node, taken = ends.pop()
        if node == rows * cols - 1:
            path = torch.zeros(len(index), dtype=torch.float64)
            path[list(taken)] = 1
            paths.append(path)
        moves = [(node, node + 1), (node, node + cols)] if cols > 1 else [(node, node + 1)]
        ends += [(arc[1], (*taken, index[arc])) for arc in moves if arc in index]
    return torch.stack(paths)


class TestSmallGrid(ProblemContract):
    def problem(self) -> Problem:
        return GridShortestPath(3, 4)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return walks(3, 4, problem)


class TestSingleRowGrid(ProblemContract):
    def problem(self) -> Problem:
        return GridShortestPath(1, 4)


class TestSingleColumnGrid(ProblemContract):
    def problem(self) -> Problem:
        return GridShortestPath(4, 1)


class TestSweptGrid(ProblemContract):
    """More paths than are listed for solving, so that the sweep is what is tested."""

    def problem(self) -> Problem:
        return GridShortestPath(6, 8)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return walks(6, 8, problem)


class TestListedKnapsack(ProblemContract):
    def problem(self) -> Problem:
        return Knapsack(WEIGHTS, CAPACITIES)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return packings()


class TestMipKnapsack(TestListedKnapsack):
    """The same knapsack as a MIP."""

    def problem(self) -> Problem:
        return MILP(WEIGHTS, -np.inf, CAPACITIES, upper=1, integer=True, sense="max")


class TestLinearProgram(ProblemContract):
    """A transport problem with degenerate vertices and many ties."""

    def problem(self) -> Problem:
        rows = np.zeros((5, 6))
        for i, j in itertools.product(range(2), range(3)):
            rows[i, 3 * i + j] = rows[2 + j, 3 * i + j] = 1
        demand = np.array([2.0, 1.0, 1.0, 1.0, 1.0])
        return MILP(rows, demand, demand)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        vertices = []
        for flow in itertools.product([0.0, 1.0], repeat=6):
            y = np.array(flow).reshape(2, 3)
            if (y.sum(axis=1) == [2, 1]).all() and (y.sum(axis=0) == 1).all():
                vertices.append(flow)
        return torch.tensor(vertices, dtype=torch.float64)


class TestFixedCosts(ProblemContract):
    """Facilities with a fixed cost each; only the cost of serving is predicted."""

    def problem(self) -> Problem:
        # columns: serve 0, serve 1, open 0, open 1, spare (no cost, serves a constraint)
        rows = [[1, 1, 0, 0, 0], [1, 0, -1, 0, 0], [0, 1, 0, -1, 0], [0, 0, 1, 1, 1]]
        return MILP(
            rows,
            [1, -np.inf, -np.inf, 2],
            [2, 0, 0, 2],
            upper=1,
            integer=True,
            cost_columns=[0, 1],
            fixed_costs=[9, 9, 0.4, 0.7, 0],
        )

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        found = [
            y
            for y in itertools.product([0.0, 1.0], repeat=4)
            if y[0] + y[1] >= 1 and y[0] <= y[2] and y[1] <= y[3] and y[2] + y[3] >= 1
        ]
        return torch.tensor(found, dtype=torch.float64)


class TestFinite(ProblemContract):
    def problem(self) -> Problem:
        return Finite([[0.5, 2.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 3.0], [1.0, 0.0, 1.0]], "max")


class TestFractions(ProblemContract):
    """Decisions that floats hold only nearly."""

    def problem(self) -> Problem:
        return Finite([[0.1, 0.9, 0.3], [0.7, 0.3, 0.0], [0.0, 0.123, 1.1]])


class TestFractionalVertices(ProblemContract):
    """A linear program whose vertices are fractions."""

    def problem(self) -> Problem:
        return MILP([[3.0, 1.0], [1.0, 7.0]], -np.inf, 1, sense="max")

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        vertices = [[0.0, 0.0], [1 / 3, 0.0], [0.0, 1 / 7], [0.3, 0.1]]
        return torch.tensor(vertices, dtype=torch.float64)


def _cheapest(costs: np.ndarray) -> np.ndarray:
    """One of n: a solver as a user would write it."""
    decision = np.zeros(len(costs))
    decision[np.argmin(costs)] = 1
    return decision


class TestOracle(ProblemContract):
    def problem(self) -> Problem:
        return Oracle(_cheapest, 5)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return torch.eye(5, dtype=torch.float64)


def _dearest(costs: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(costs.argmax(1), costs.shape[1])


class TestBatchedTensorOracle(TestOracle):
    def problem(self) -> Problem:
        return Oracle(_dearest, 5, "max", batched=True, tensors=True)


class TestTerrain(ProblemContract):
    """All circulations of a 2x2 map with sides only can be listed: each move is made or not."""

    def problem(self) -> Problem:
        return TerrainShortestPath(2, 2, neighbours=4)

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        sides = [(0, 1), (0, 2), (1, 3), (2, 3)]
        moves = sides + [(b, a) for a, b in sides]
        found = set()
        for made in itertools.product([0, 1], repeat=len(moves)):
            balance, visits = [1, 0, 0, -1], [1, 0, 0, 0]
            for (a, b), taken in zip(moves, made, strict=True):
                balance[a] -= taken
                balance[b] += taken
                visits[b] += taken
            if not any(balance):
                found.add(tuple(visits))
        return torch.tensor(sorted(found), dtype=torch.float64)

    def costs(self, problem: Problem) -> torch.Tensor:
        # One is negative in every row: walks may then visit a cell twice.
        costs = super().costs(problem)
        return torch.cat([-costs[:, :1].abs(), costs[:, 1:]], dim=1)


class TestTerrainWithoutNegativeCosts(TestTerrain):
    """The sweep alone, with cells that cost nothing among them."""

    def ranked_set(self, problem: Problem) -> torch.Tensor:
        # A walk that crosses itself is no second-best route.
        return torch.tensor([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]], dtype=torch.float64)

    def costs(self, problem: Problem) -> torch.Tensor:
        return super().costs(problem).abs()


def test_decisions_of_another_size_are_not_feasible() -> None:
    for problem in (Finite(np.eye(3)), GridShortestPath(2, 2), MILP(WEIGHTS, -np.inf, CAPACITIES)):
        fitting = problem.solve(torch.full((2, problem.num_costs), 1.0).double())
        assert problem.is_feasible(fitting).tolist() == [True, True]
        surplus = torch.cat([fitting, fitting[:, :1]], dim=1)
        for wrong in (surplus, fitting[:, 1:], fitting[:, :, None]):
            assert problem.is_feasible(wrong).tolist() == [False, False]
            assert "has shape" in problem.explain_faults(wrong)[1]
        assert problem.is_feasible(fitting * torch.nan).tolist() == [False, False]
