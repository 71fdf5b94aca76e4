"""Answers to `Epsilon`, in which another plan wins, beside all plans, LPs, cells and points."""

import itertools

import numpy as np
import pytest
import scipy.optimize
import torch
from sklearn.tree import DecisionTreeRegressor

import cfopt
from cfopt.problems import Finite, Knapsack
from cfopt.search import TreeCells


def _plans(rng: np.random.Generator) -> np.ndarray:
    """Up to six of all sets of two to four items, the empty one among them now and then."""
    every = np.array(list(itertools.product([0.0, 1.0], repeat=int(rng.integers(2, 5)))))
    return every[rng.choice(len(every), min(len(every), 6), replace=False)]


def _beaten(prices: np.ndarray, plans: np.ndarray, factual: np.ndarray) -> bool:
    """Whether another plan is better by more than rounding, prices turned so that less is."""
    best = plans[(plans @ prices).argmin()]
    return bool((factual - best) @ prices > 5e-10 * np.abs(prices).max())


def _far_off(prices: np.ndarray, plans: np.ndarray, factual: np.ndarray, eps: float) -> bool:
    value, own = (plans @ prices).min(), factual @ prices
    size = np.abs(prices).sum() * np.abs(plans).max()
    return bool(value + eps * abs(value) <= own + 1e-5 * size)


def _least(
    slopes: np.ndarray, prices: np.ndarray, plans: np.ndarray, factual: np.ndarray, eps: float
) -> float:
    """The L1 norm of the least change u after which some other plan wins, by an LP for each.

    With prices `prices + slopes @ u`; by a lead of 1e-6, which closes the set.
    """
    least = np.inf
    for plan in plans[(plans != factual).any(axis=1)]:
        each = plan[None] if eps <= 1 else plans
        rows = np.concatenate([[(1 + eps) * plan], (1 - eps) * each, [plan]]) - factual
        lead = np.zeros(len(rows))
        lead[-1] = 1e-6
        matrix = rows @ slopes
        found = scipy.optimize.linprog(
            np.ones(2 * slopes.shape[1]), np.hstack([matrix, -matrix]), -rows @ prices - lead
        )
        least = min(least, found.fun if found.status == 0 else np.inf)
    return least


@pytest.mark.parametrize("kind", ["min", "max", "knapsack"])
def test_behind_an_affine_predictor_another_plan_wins_in_the_nearest_context(kind: str) -> None:
    rng = np.random.default_rng(7)
    sign = 1.0 if kind == "min" else -1.0
    ended = set()
    for _ in range(25):
        plans = _plans(rng)
        problem = Finite(plans, "min" if kind == "min" else "max")
        if kind == "knapsack":
            weights = rng.integers(1, 4, plans.shape[1])
            room = float(rng.integers(1, weights.sum() + 1))
            every = np.array(list(itertools.product([0.0, 1.0], repeat=len(weights))))
            plans, problem = every[every @ weights <= room], Knapsack([weights.tolist()], [room])
        weight = rng.integers(-2, 3, (plans.shape[1], 2)).astype(np.float64)
        x0 = rng.integers(-3, 4, (1, 2)).astype(np.float64)
        layer = torch.nn.Linear(2, len(weight)).double()
        layer.load_state_dict(
            {
                k: torch.tensor(v)
                for k, v in {
                    "weight": weight,
                    "bias": rng.integers(-3, 4, len(weight)) + 0.5,
                }.items()
            }
        )
        eps = float(rng.choice([0.3, 1.0, 1.5]))
        e = cfopt.explain(
            torch.from_numpy(x0),
            cfopt.Pipeline(layer, problem),
            cfopt.Epsilon(eps),
            proximity=cfopt.L1(),
        )
        ended.add(str(e.status[0]))
        factual = e.factual[0].numpy()
        if e.status[0] is cfopt.Status.REJECTED:
            assert eps > 1
            assert not factual.any()
            continue
        before, after = (sign * layer(x.double())[0].detach().numpy() for x in (e.x0, e.x))
        least = _least(sign * weight, before, plans, factual, eps)
        if e.valid[0]:
            assert _beaten(after, plans, factual)
            assert _far_off(after, plans, factual, eps)
            assert float(e.loss[0]) <= least + 1e-4 * (1 + least)
        else:
            assert e.status[0] is cfopt.Status.PROVED_INFEASIBLE
            assert least == np.inf
    assert "valid" in ended


@pytest.mark.parametrize("listed", [True, False])
def test_behind_a_tree_a_plan_that_costs_nothing_is_not_wrong(listed: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(8):
        plans = _plans(rng)
        contexts = rng.normal(size=(40, 2))
        costs = np.round(2 * contexts @ rng.normal(size=(2, plans.shape[1])) + 1).clip(0)
        tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(contexts, costs)
        x0, eps = contexts[costs.any(axis=1)][:1], float(rng.choice([0.3, 1.0]))
        e = cfopt.explain(
            torch.from_numpy(x0),
            cfopt.Pipeline(tree, Finite(plans)),
            cfopt.Epsilon(eps),
            proximity=cfopt.LInf(),
            search=TreeCells(max_decisions=100 if listed else 1),
        )
        factual = e.factual[0].numpy()
        edges = [tree.tree_.threshold[tree.tree_.feature == j] for j in range(2)]
        axes = [
            np.concatenate([x0[0, j : j + 1], edges[j] - 1e-6, edges[j] + 1e-6]) for j in range(2)
        ]
        points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        good = [
            _beaten(prices, plans, factual) and _far_off(prices, plans, factual, eps)
            for prices in tree.predict(points)
        ]
        least = np.abs(points - x0).max(axis=1)[good].min(initial=np.inf)
        assert bool(e.valid[0]) == (least < np.inf)
        if e.valid[0]:
            assert e.optimal[0] or e.status[0] is cfopt.Status.ALREADY_VALID
            assert float(e.loss[0]) == pytest.approx(least, abs=1e-5)
            assert _beaten(tree.predict(e.x.numpy())[0], plans, factual)
        else:
            assert e.status[0] is cfopt.Status.PROVED_INFEASIBLE


def test_behind_a_network_no_answer_makes_the_plan_free() -> None:
    rng = np.random.default_rng(5)
    for _ in range(5):
        first, last = torch.nn.Linear(2, 3).double(), torch.nn.Linear(3, 3).double()
        for parameter in (*first.parameters(), *last.parameters()):
            parameter.data = torch.from_numpy(rng.normal(size=tuple(parameter.shape)))
        network = torch.nn.Sequential(first, torch.nn.ReLU(), last).requires_grad_(False)
        plans, eps = np.concatenate([np.eye(3), np.zeros((1, 3))]), float(rng.choice([0.3, 1.0]))
        x0 = torch.from_numpy(rng.normal(size=(1, 2)))
        pipeline = cfopt.Pipeline(network, Finite(plans))
        e = cfopt.explain(
            x0, pipeline, cfopt.Epsilon(eps), features=cfopt.Features(lower=-3.0, upper=3.0)
        )
        factual, axis = e.factual[0].numpy(), np.linspace(-3, 3, 61)
        points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        every = network(torch.from_numpy(points)).numpy()
        good = [
            _beaten(p, plans, factual) and _far_off(p, plans, factual, eps - 1e-4) for p in every
        ]
        least = np.square(points - x0.numpy()).sum(axis=1)[good].min(initial=np.inf)
        if e.valid[0]:
            assert _beaten(network(e.x)[0].numpy(), plans, factual)
        assert (
            float(e.bound[0]) <= least + 1e-3
            or not np.isfinite(float(e.bound[0]))
            or least == np.inf
        )
        assert e.status[0] is not cfopt.Status.PROVED_INFEASIBLE or least == np.inf


def test_prices_at_which_the_plan_is_free_are_no_answer() -> None:
    e = cfopt.explain_costs([[1.0, 3.0, 4.0]], Finite(torch.eye(3)), cfopt.Epsilon(0.3))
    assert e.optimal.all()
    assert torch.allclose(e.x, torch.tensor([[1.0, 1 / 1.3, 4.0]]).double()) or e.loss < 3.0
    assert not torch.equal(e.decision, e.factual)
