"""Predictors, losses and training, with PyEPO's SPO+ as the independent answer."""

from __future__ import annotations

import numpy as np
import pyepo.func
import pytest
import torch
from pyepo.model.ort.knapsack import knapsackModel
from pyepo.model.ort.shortestpath import shortestPathModel

import cfopt
from cfopt.datasets import synthetic
from cfopt.errors import InputError, SolverError
from cfopt.predictors import MSE, SPOPlus, fit, linear, mlp
from cfopt.problems import GridShortestPath, Knapsack, PyEPOProblem
from conftest import normal

WEIGHTS = np.array([[3.0, 5.0, 4.0, 7.0, 2.0, 6.0], [4.0, 1.0, 6.0, 3.0, 5.0, 2.0]])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (GridShortestPath(4, 3), shortestPathModel((4, 3))),
        (Knapsack(WEIGHTS, [11, 9]), knapsackModel(WEIGHTS, [11, 9])),
    ],
)
def test_spo_plus_has_the_value_and_the_gradient_of_pyepo(ours, theirs) -> None:
    predicted = normal(16, ours.num_costs).requires_grad_()
    true = normal(16, ours.num_costs, seed=1)
    decisions = ours.solve(true)
    values = (true * decisions).sum(1, keepdim=True)
    loss = SPOPlus(ours)(predicted, true, decisions)
    (gradient,) = torch.autograd.grad(loss, predicted)
    other = pyepo.func.SPOPlus(theirs, processes=1)(predicted, true, decisions, values)
    (expected,) = torch.autograd.grad(other, predicted)
    assert loss.item() == pytest.approx(other.item(), rel=1e-6)
    assert torch.allclose(gradient, expected, atol=1e-9)
    assert loss > 0


def test_spo_plus_counts_fixed_costs_as_pyepo_does() -> None:
    from pyepo import EPO
    from pyepo.dsl import Minimize, Parameter, Problem, Variable

    y, cost = Variable(4, vtype=EPO.BINARY), Parameter(2)
    fixed = np.array([0.3, -0.2, 0.0, 0.5])
    model = Problem(Minimize(cost @ y[2:] + fixed @ y), [y.sum() == 2]).compile("ortools")
    ours = PyEPOProblem(model)
    predicted, true = normal(16, 2).requires_grad_(), normal(16, 2, seed=1)
    decisions = ours.solve(true)
    values = (ours.prices(true) * decisions).sum(1, keepdim=True)
    loss = SPOPlus(ours)(predicted, true, decisions)
    other = pyepo.func.SPOPlus(model, processes=1)(predicted, true, decisions, values)
    assert loss.item() == pytest.approx(other.item(), rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, predicted)
    (expected,) = torch.autograd.grad(other, predicted)
    assert torch.allclose(gradient, expected, atol=1e-9)


@pytest.mark.parametrize("make", [lambda problem: SPOPlus(problem), lambda problem: MSE()])
def test_training_makes_better_decisions(make) -> None:
    data = synthetic.grid(400, features=5, rows=3, cols=3)
    torch.manual_seed(0)
    predictor = linear(5, data.problem.num_costs)
    pipeline = cfopt.Pipeline(predictor, data.problem)
    test = slice(300, 400)

    def regret() -> float:
        decisions = pipeline.decide(data.contexts[test])
        return float(
            cfopt.metrics.relative_regret(data.problem, decisions, data.costs[test]).mean()
        )

    before = regret()
    epochs = []
    history = fit(
        predictor,
        data.contexts[:300],
        data.costs[:300],
        make(data.problem),
        epochs=15,
        learning_rate=0.01,
        generator=torch.Generator().manual_seed(0),
        on_epoch=lambda epoch, loss: epochs.append((epoch, loss)),
    )
    assert epochs == list(enumerate(history, start=1))
    assert history[-1] < history[0]
    assert regret() < 0.5 * before


def test_training_is_repeatable() -> None:
    data = synthetic.knapsack(60, features=3, items=6)
    weights = []
    for _ in range(2):
        torch.manual_seed(1)
        predictor = mlp(3, 6, depth=2)
        generator = torch.Generator().manual_seed(2)
        fit(
            predictor,
            data.contexts,
            data.costs,
            SPOPlus(data.problem),
            epochs=2,
            generator=generator,
        )
        weights.append(predictor[0].weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(("depth", "layers"), [(1, 1), (2, 3), (5, 9)])
def test_the_network_has_the_papers_shape(depth: int, layers: int) -> None:
    network = mlp(10, 40, depth)
    assert len(network) == layers
    widths = [(part.in_features, part.out_features) for part in network[::2]]
    assert widths == [(10, 10)] * (depth - 1) + [(10, 40)]


def test_the_data_are_those_of_pyepo() -> None:
    data = synthetic.grid(20, features=4, rows=3, cols=2, degree=3, noise=0.25, seed=5)
    x, c = pyepo.data.shortestpath.genData(20, 4, (3, 2), deg=3, noise_width=0.25, seed=5)
    assert np.allclose(data.contexts, x, atol=1e-6)
    assert np.allclose(data.costs, c, atol=1e-6)
    assert isinstance(data.problem, GridShortestPath)


def test_the_papers_knapsack_has_few_feasible_sets() -> None:
    problem = synthetic.knapsack(1, features=5).problem
    assert len(problem.decisions()) == 871


def test_training_data_that_do_not_match_are_refused() -> None:
    for contexts, costs in ((3, 2), (0, 0)):
        with pytest.raises(InputError, match="as many contexts as costs"):
            fit(linear(2, 2), torch.zeros(contexts, 2), torch.zeros(costs, 2), MSE(), epochs=1)
    with pytest.raises(InputError, match="depth"):
        mlp(2, 2, depth=0)


def test_training_stops_where_the_solver_finds_no_optimum() -> None:
    unbounded = cfopt.problems.MILP([[1.0, 1.0]], 1, np.inf)
    with pytest.raises(SolverError, match="unbounded"):
        fit(linear(2, 2), -torch.ones(4, 2), torch.ones(4, 2), SPOPlus(unbounded), epochs=50)
