"""The worst context around an answer, against many drawn ones."""

from __future__ import annotations

import torch
from tests.pipelines import normal
from torch import nn

import cfopt
from cfopt.problems import GridShortestPath


def test_no_drawn_context_of_the_ball_refutes_an_alternative_that_is_the_best() -> None:
    """Inside, the alternative is the best decision, so that h is 0 and has no gradient."""
    torch.manual_seed(1)
    problem = GridShortestPath(4, 4)
    layers = (nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, problem.num_costs))
    pipeline = cfopt.Pipeline(nn.Sequential(*layers).double(), problem)
    x, ball = normal(6, 6, seed=2), cfopt.Ball(0.3)
    wanted = pipeline.decide(x + 0.5 * normal(6, 6, seed=3))
    e = cfopt.explain(x, pipeline, cfopt.Absolute(wanted), robust=ball)
    assert e.answered.sum() >= 3
    refuted = []
    for row in e.answered.nonzero().flatten().tolist():
        away = normal(2000, 6, seed=4)
        near = e.x[row] + 0.3 * away / away.norm(dim=1, keepdim=True)
        costs = pipeline.costs(near).detach()
        loss = (costs * (e.alternative[row] - problem.solve(costs))).sum(1)
        refuted.append(bool((loss > 1e-5 * costs.abs().sum(1)).any()))
    assert not any(refuted)
