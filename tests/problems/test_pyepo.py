"""Real PyEPO models, on OR-Tools and on Gurobi's bundled size-limited licence."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from pyepo import EPO
from pyepo.dsl import Minimize, Parameter, Variable
from pyepo.dsl import Problem as Model
from pyepo.model.grb.knapsack import knapsackModel as GurobiKnapsack
from pyepo.model.grb.shortestpath import shortestPathModel as GurobiPath
from pyepo.model.ort.knapsack import knapsackModel as OrToolsKnapsack
from pyepo.model.ort.shortestpath import shortestPathModel as OrToolsPath
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.errors import InputError
from cfopt.problems import MILP, GridShortestPath, Knapsack, Problem, PyEPOProblem
from cfopt.testing import ProblemContract

WEIGHTS = np.array([[3.0, 5.0, 4.0, 7.0, 2.0, 6.0], [4.0, 1.0, 6.0, 3.0, 5.0, 2.0]])
CAPACITIES = np.array([11.0, 9.0])


class PyEPOContract(ProblemContract):
    """Ties are the solver's own affair, so costs have none."""

    def costs(self, problem: Problem) -> torch.Tensor:
        return normal(20, problem.num_costs)


class TestOrToolsKnapsack(PyEPOContract):
    def problem(self) -> Problem:
        return PyEPOProblem(OrToolsKnapsack(WEIGHTS, CAPACITIES))

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return Knapsack(WEIGHTS, CAPACITIES).decisions()


class TestGurobiKnapsack(TestOrToolsKnapsack):
    def problem(self) -> Problem:
        return PyEPOProblem(GurobiKnapsack(WEIGHTS, CAPACITIES))


class TestOrToolsPath(PyEPOContract):
    def problem(self) -> Problem:
        return PyEPOProblem(OrToolsPath((3, 4)))

    def feasible_set(self, problem: Problem) -> torch.Tensor:
        return GridShortestPath(3, 4).decisions()


class TestGurobiPath(TestOrToolsPath):
    def problem(self) -> Problem:
        return PyEPOProblem(GurobiPath((3, 4)))


def _partial(backend: str) -> PyEPOProblem:
    """Choose two of four; the costs of the last two are predicted, the others fixed."""
    y = Variable(4, vtype=EPO.BINARY)
    cost = Parameter(2)
    fixed = np.array([0.3, -0.2, 0.0, 0.5])
    model = Model(Minimize(cost @ y[2:] + fixed @ y), [y.sum() == 2])
    return PyEPOProblem(model.compile(backend))


@pytest.mark.parametrize("backend", ["ortools", "gurobi"])
def test_partial_costs_are_those_of_pyepo(backend: str) -> None:
    problem = _partial(backend)
    assert (problem.num_costs, problem.num_columns) == (2, 4)
    costs = normal(10, 2)
    same = MILP(
        np.ones((1, 4)), 2, 2, upper=1, integer=True
    )  # with every cost given, an independent formulation
    prices = problem.prices(costs)
    expected = torch.cat([torch.tensor([[0.3, -0.2]]).expand(10, 2), costs], dim=1)
    expected[:, 3] += 0.5
    assert torch.allclose(prices, expected)
    assert torch.equal(problem.solve(costs), same.solve(expected))
    assert problem.is_feasible(torch.tensor([[1.0, 0, 0, 1], [1, 1, 1, 0]])).tolist() == [
        True,
        False,
    ]


@pytest.mark.slow
def test_a_pyepo_model_is_explained_like_our_own_problem() -> None:
    predictor = random_linear(4, 12, bias=5.0)
    contexts = normal(8, 4)
    ours = cfopt.Pipeline(predictor, GridShortestPath(3, 3))
    wanted = ours.decide(normal(8, 4, seed=1))
    theirs = cfopt.Pipeline(predictor, OrToolsPath((3, 3)))  # wrapped by Pipeline
    search = cfopt.MDMM(step=0.02)
    a = cfopt.explain(contexts, ours, cfopt.Absolute(wanted), search=search)
    b = cfopt.explain(contexts, theirs, cfopt.Absolute(wanted), search=search)
    assert a.status == b.status
    assert torch.allclose(a.x, b.x, atol=1e-9)


def test_something_else_is_not_taken_for_a_pyepo_model() -> None:
    with pytest.raises(InputError, match="Problem or a PyEPO optModel"):
        cfopt.Pipeline(torch.nn.Linear(2, 2), object())


@pytest.mark.long
def test_the_solvers_can_be_imported_in_one_process_in_any_order() -> None:
    """Each order in a process of its own, which has torch: that takes longest, and is no solver."""
    code = (
        "import importlib, os, torch\n"
        "names = ['highspy', 'ortools.linear_solver.pywraplp', 'pyepo']\n"
        "for order in (names, names[::-1]):\n"
        "    if not (child := os.fork()):\n"
        "        list(map(importlib.import_module, order))\n"
        "        print('all there', flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.split("\n") == ["all there"] * 2 + [""], run.stderr
