"""Answers under several tree ensembles, or several networks, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from torch import nn

import cfopt
from cfopt.problems import Finite
from cfopt.result.status import Status

Array = NDArray[np.float64]
PLANS = np.eye(3)


def _violation(kind: str, costs: Array, plan: Array, factual: Array) -> Array:
    """The h of a question at predicted costs, `(N, n) -> (N,)`."""
    best = (costs @ PLANS.T).min(1)
    if kind == "absolute":
        return costs @ plan - best
    if kind == "relative":
        return costs @ (plan - factual)
    return best + 0.05 * np.abs(best) - costs @ factual


def _question(kind: str, plans: Array) -> cfopt.Criterion:
    if kind == "epsilon":
        return cfopt.Epsilon(0.05)
    return cfopt.Absolute(plans) if kind == "absolute" else cfopt.Relative(plans)


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon"])
@pytest.mark.parametrize("count", [2, 3])
def test_under_several_forests_the_nearest_of_all_cells_is_proved(kind: str, count: int) -> None:
    rng, answered = np.random.default_rng(count), 0
    x, slopes = rng.normal(size=(60, 2)), rng.normal(size=(2, 3))
    forests = [
        RandomForestRegressor(2, max_depth=2, random_state=k).fit(
            x, 6 + 2 * (x @ slopes + rng.normal(scale=0.2, size=(60, 3)))
        )
        for k in range(count)
    ]
    pipeline = cfopt.Pipeline(forests[0], Finite(PLANS))
    x0 = rng.normal(size=(6, 2))
    factual = pipeline.decide(x0).numpy()
    plans = pipeline.decide(x0[::-1].copy()).numpy()
    e = cfopt.explain(x0, pipeline, _question(kind, plans), robust=cfopt.Models(forests[1:]))

    trees = [tree.tree_ for forest in forests for tree in forest.estimators_]
    for row, origin in enumerate(x0):
        sides = []
        for f in range(2):
            edges = np.concatenate([tree.threshold[tree.feature == f] for tree in trees])
            sides.append([origin[f], *(edges - 1e-7), *(edges + 1e-6)])
        points = np.array(list(itertools.product(*sides)))
        holds = np.ones(len(points), dtype=bool)
        for forest in forests:
            costs = forest.predict(points)
            holds &= _violation(kind, costs, plans[row], factual[row]) <= 1e-9
        least = np.square(points - origin).sum(1)[holds].min(initial=np.inf)
        if least == np.inf:
            assert e.status[row] is Status.PROVED_INFEASIBLE
        else:
            assert e.optimal[row]
            assert float(e.loss[row]) == pytest.approx(least, abs=1e-5)
            answered += 1
    assert answered


def _network(rng: Any, *widths: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for before, after in itertools.pairwise((2, *widths, 3)):
        layer = nn.Linear(before, after).double()
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(rng.normal(size=layer.weight.shape)))
            layer.bias.copy_(torch.from_numpy(rng.normal(size=layer.bias.shape)))
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon"])
@pytest.mark.parametrize("other", [(3,), (2, 2), ()])
def test_under_several_networks_nothing_nearer_than_the_bound_holds(kind: str, other) -> None:
    rng = np.random.default_rng(len(other))
    networks = [_network(rng, 3), _network(rng, *other)]
    pipeline = cfopt.Pipeline(networks[0], Finite(PLANS))
    x0 = rng.normal(size=(3, 2)).clip(-2, 2)
    factual = pipeline.decide(torch.from_numpy(x0)).numpy()
    plans = np.roll(factual, 1, axis=1)
    e = cfopt.explain(
        torch.from_numpy(x0),
        pipeline,
        _question(kind, plans),
        robust=cfopt.Models(networks[1:]),
        features=cfopt.Features(lower=-3, upper=3),
    )
    axis = np.linspace(-3, 3, 201)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    costs = [network(torch.from_numpy(points)).detach().numpy() for network in networks]
    for row, origin in enumerate(x0):
        each = [_violation(kind, one, plans[row], factual[row]) for one in costs]
        losses = np.square(points - origin).sum(1)[np.max(each, axis=0) <= 0]
        least = losses.min(initial=np.inf)
        if e.status[row] is Status.PROVED_INFEASIBLE:
            assert least == np.inf
        else:
            assert e.optimal[row]
            assert float(e.loss[row]) <= least * (1 + 1e-6)
