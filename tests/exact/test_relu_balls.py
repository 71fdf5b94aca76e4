"""Balls behind ReLU networks: bounds, against the breakpoints of networks of one feature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.pipelines import normal

import cfopt
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.relu.ball import ReluBall
from cfopt.problems import GridShortestPath, Knapsack


def network(features: int, costs: int, seed: int) -> torch.nn.Sequential:
    """Two layers of neurons, costs around 2."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = [features, 8, 8, costs]
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    with torch.no_grad():
        layers[-1].bias += 2
    first, second, last = layers
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last).double()


def breakpoints(net: torch.nn.Sequential, low: float, high: float) -> torch.Tensor:
    """The ends of an interval, and where a neuron changes sides in it, by halving."""
    places = torch.linspace(low, high, 4001, dtype=torch.float64)[:, None]

    def signs(x: torch.Tensor) -> torch.Tensor:
        first = net[0](x)
        return torch.cat([first, net[2](first.relu())], dim=1) > 0

    with torch.no_grad():
        changes = (signs(places[1:]) != signs(places[:-1])).any(1).nonzero().flatten()
        near, far = places[changes], places[changes + 1]
        for _ in range(50):
            middle = (near + far) / 2
            same = (signs(middle) == signs(near)).all(1, keepdim=True)
            near, far = torch.where(same, middle, near), torch.where(same, far, middle)
    return torch.cat([places[:1], places[-1:], near, far])


@pytest.mark.parametrize("seed", range(12))
def test_a_ball_is_proved_where_the_criterion_holds_at_all_breakpoints(seed: int) -> None:
    problem = [GridShortestPath(3, 3), Knapsack([[3.0, 5.0, 2.0, 4.0]], [9.0])][seed % 2]
    net = network(1, problem.num_costs, seed)
    pipeline = cfopt.Pipeline(net, problem)
    x, radius = normal(6, 1, seed=seed), 0.1 + 0.2 * (seed % 3)
    wanted, factual = pipeline.decide(x), pipeline.decide(x + 1)
    relative = seed % 4 < 2
    criterion = cfopt.Relative(wanted) if relative else cfopt.Absolute(wanted)
    rules = Rules(problem, factual, criterion.bind(6, factual))
    ball = ReluBall(Task(rules, Space(x, cfopt.L2()), net), OffBy(radius, cfopt.L2(), np.ones(1)))
    prices = rules.turned(net(x)).detach().numpy()
    for row in range(6):
        at = breakpoints(net, float(x[row]) - radius, float(x[row]) + radius)
        costs = rules.turned(net(at)).detach()
        rivals = factual[row : row + 1] if relative else problem.decisions()
        most = float((costs @ (wanted[row] - rivals).T).max())
        if abs(most) > 1e-9 or not most:
            assert ball.holds(row, prices[row]) == (most <= 0), (row, most)


@pytest.mark.parametrize("norm", [cfopt.L2(), cfopt.L1(), cfopt.LInf()])
def test_answers_are_valid_and_no_drawn_context_refutes_them(norm: cfopt.Proximity) -> None:
    pipeline = cfopt.Pipeline(network(3, 12, 1), GridShortestPath(3, 3))
    x0 = normal(4, 3, seed=5)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.05), robust=cfopt.Ball(0.05, norm))
    assert e.valid.sum() >= 2
    order = {cfopt.L2: 2, cfopt.L1: 1, cfopt.LInf: np.inf}[type(norm)]
    off = normal(2000, 3, seed=6)
    off = 0.05 * off / off.norm(order, dim=1, keepdim=True)
    for row in e.valid.nonzero().flatten().tolist():
        costs = pipeline.costs(e.x[row] + off).detach()
        best = (costs * pipeline.problem.solve(costs)).sum(1)
        assert (1.05 * best <= costs @ e.factual[row] + 1e-5).all()
