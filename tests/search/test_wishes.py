"""Explanations of wishes against brute force: every plan of the foil asked for on its own."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt import (
    L1,
    MDMM,
    Absolute,
    AtLeast,
    Avoids,
    Ball,
    Condition,
    CuttingPlane,
    DerivativeFree,
    Explanation,
    Features,
    Models,
    Pipeline,
    Relative,
    Sequential,
    Status,
    Uses,
    Wishes,
    explain,
)
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.verify import recheck
from cfopt.exact.wish_task import WishProof
from cfopt.problems import (
    MILP,
    Finite,
    GridShortestPath,
    Knapsack,
    Problem,
    TerrainShortestPath,
)
from cfopt.problems.foil import Foil
from cfopt.question.proximity import L2

GRID = GridShortestPath(3, 4)
PACKING = Knapsack(np.array([[3, 5, 4, 7, 2.0]]), np.array([11.0]))


def linear(problem: Problem, seed: int, features: int = 4) -> Pipeline:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Pipeline(torch.nn.Linear(features, problem.num_costs).double(), problem)


def granting(problem: Problem, foil: Foil) -> Tensor:
    listed = problem.decisions()
    return listed[torch.from_numpy(foil.conditions(problem).met(listed.numpy()))]


def nearest_by_plan(x0: Tensor, pipeline: Pipeline, kind: type, foil: Foil, **asked: Any) -> Tensor:
    """The least loss of an exact explanation of any plan of the foil; inf where none has one."""
    plans = granting(pipeline.problem, foil)
    answers = [explain(x0, pipeline, kind(plan), **asked) for plan in plans]
    return torch.stack([torch.where(e.valid, e.loss, torch.inf) for e in answers]).amin(0)


WISHES = [
    (GRID, Uses("F")),
    (GRID, Avoids("A-B") & Uses("G-K")),
    (PACKING, Uses("item 3")),
    (PACKING, AtLeast(2, ["item 1", "item 2", "item 4"]) & Avoids(0)),
    (PACKING, Condition({0: 1.0, 1: 2.0, 3: -1.0}, lower=0.5, upper=2.5)),
]
KINDS: list[dict[str, Any]] = [
    {},
    {"proximity": L1()},
    {"features": Features(lower=-1.0, upper=1.0, scale=[1.0, 2.0, 0.5, 1.0])},
    {"features": Features(integer=[0], immutable=[1])},
    {"features": Features(max_changes=2)},
]


def others(pipeline: Pipeline) -> Models:
    """Two predictors that are a little off, as if they had been trained again."""
    twins = [deepcopy(pipeline.predictor), deepcopy(pipeline.predictor)]
    with torch.no_grad():
        for seed, twin in enumerate(twins):
            twin.weight += 0.1 * normal(*twin.weight.shape, seed=seed)
    return Models(twins)


STANDING_UP = ["ball", "taxicab ball", "models", "both", "few changes"]


@pytest.mark.parametrize("how", STANDING_UP)
def test_a_robust_answer_to_a_wish_is_that_of_its_nearest_plan(how: str) -> None:
    found = 0
    for seed, (problem, foil) in enumerate(WISHES[1:4]):
        pipeline, x0 = linear(problem, seed), normal(2, 4, seed=seed)
        given: dict[str, Any] = {
            "ball": {"robust": Ball(0.1)},
            "taxicab ball": {"robust": Ball(0.1, norm=L1()), "proximity": L1()},
            "models": {"robust": others(pipeline)},
            "both": {"robust": [Ball(0.05), others(pipeline)]},
            "few changes": {"robust": Ball(0.05), "features": Features(max_changes=2)},
        }[how]
        for kind in (Absolute, Relative):
            e = explain(x0, pipeline, kind(foil), **given)
            best = nearest_by_plan(x0, pipeline, kind, foil, **given)
            assert torch.equal(e.valid, best.isfinite())
            assert torch.allclose(e.loss[e.valid], best[e.valid], rtol=1e-6, atol=1e-9)
            assert all(s.is_valid or s is Status.PROVED_INFEASIBLE for s in e.status)
            found += int(e.valid.sum())
            assert not refuted_by_samples(e, pipeline, kind, given["robust"]).any()
    assert found


def refuted_by_samples(e: Explanation, pipeline: Pipeline, kind: type, robust: Any) -> Tensor:
    """Which answers' plans lose somewhere in the ball, or under one of the predictors."""
    parts = robust if isinstance(robust, list) else [robust]
    radius = max((part.radius for part in parts if isinstance(part, Ball)), default=0.0)
    order = 1 if any(isinstance(getattr(part, "norm", None), L1) for part in parts) else 2
    models = [m for part in parts if isinstance(part, Models) for m in part.predictors]
    listed, sign = pipeline.problem.decisions(), pipeline.problem.sense.sign
    refuted = torch.zeros(len(e), dtype=torch.bool)
    for predictor in [pipeline.predictor, *models]:
        for seed in range(20):
            off = normal(*e.x.shape, seed=seed)
            x = e.x + radius * off / off.norm(p=order, dim=1, keepdim=True)
            costs = sign * predictor(x).detach()
            rival = (costs @ listed.T).amin(1)
            if kind is Relative:
                rival = (costs * e.factual).sum(1)
            refuted |= (costs * e.wanted).sum(1) > rival + 1e-6
    return refuted & e.answered


def test_behind_a_network_a_robust_wish_argues_one_plan() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = [torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 17)]
        pipeline = Pipeline(torch.nn.Sequential(*layers).double(), GRID)
    x0, foil = normal(1, 4, seed=1), Uses("I-J")
    e = explain(x0, pipeline, Absolute(foil), robust=Ball(0.05), search=Sequential())
    assert set(e.status) == {"sampled"}
    assert foil.conditions(GRID).met(e.wanted.numpy()).all()
    assert not refuted_by_samples(e, pipeline, Absolute, Ball(0.05)).any()


def test_a_robust_wish_with_a_margin_is_refused() -> None:
    with pytest.raises(InputError, match=r"margin of 0, got 0\.1"):
        explain(
            normal(1, 4, seed=0),
            linear(GRID, 0),
            Absolute(Uses("F")),
            robust=Ball(0.1),
            margin=0.1,
        )


@pytest.mark.parametrize("asked", KINDS, ids=["L2", "L1", "limits", "whole", "few"])
@pytest.mark.parametrize("kind", [Absolute, Relative])
def test_the_nearest_answer_to_a_wish_is_that_of_its_nearest_plan(
    kind: type, asked: dict[str, Any]
) -> None:
    ended = set()
    for seed, (problem, foil) in enumerate(WISHES):
        pipeline, x0 = linear(problem, seed), normal(4, 4, seed=seed).clamp(-1, 1)
        if "integer" in vars(asked.get("features", Features())):
            x0[:, 0] = x0[:, 0].round()
        e = explain(x0, pipeline, kind(foil), **asked)
        best = nearest_by_plan(x0, pipeline, kind, foil, **asked)
        assert torch.equal(e.valid, best.isfinite())
        assert torch.allclose(e.loss[e.valid], best[e.valid], rtol=1e-6, atol=1e-9)
        assert e.optimal[e.valid].all()
        failed = {status for status in e.status if not status.is_valid}
        assert failed <= {Status.PROVED_INFEASIBLE}
        ended |= set(e.status)
        met = torch.from_numpy(foil.conditions(problem).met(e.wanted.numpy()))
        assert met.all()
        best_now = (problem.sense.sign * e.costs @ granting(problem, foil).T).amin(1)
        assert torch.allclose((problem.sense.sign * e.costs * e.wanted).sum(1), best_now)
    assert Status.VALID in ended


def test_a_wish_that_no_context_grants_is_proved_to_be_one() -> None:
    # Every cost grows with the one feature that may change, so that longer lists never win.
    decisions = [[1.0, 0, 0], [1.0, 1, 0], [1.0, 0, 1], [0, 1, 1]]
    predictor = torch.nn.Linear(1, 3).double()
    with torch.no_grad():
        predictor.weight[:] = torch.tensor([[1.0], [0.0], [0.0]])
        predictor.bias[:] = torch.tensor([0.0, 1.0, 2.0])
    pipeline = Pipeline(predictor, Finite(decisions))
    x0 = torch.zeros(1, 1, dtype=torch.float64)
    foil = Uses(0) & AtLeast(1, [1, 2])
    e = explain(x0, pipeline, Absolute(foil))
    assert e.status == (Status.PROVED_INFEASIBLE,)
    assert "no context is a decision with y0" in e.message[0]
    # The last of the list needs x >= 3, since 3 must not exceed x.
    e = explain(x0, pipeline, Absolute(Avoids(0)))
    assert e.optimal.all()
    assert torch.allclose(e.x, torch.full_like(e.x, 3.0))
    e = explain(x0, pipeline, Absolute(Avoids(0)), features=Features(upper=2.0))
    assert e.status == (Status.PROVED_INFEASIBLE,)


def test_a_forged_proof_proves_nothing() -> None:
    pipeline, x0, foil = linear(GRID, 2), normal(3, 4, seed=5), WISHES[1][1]
    factual = pipeline.decide(x0)
    rules = Rules(GRID, factual, Absolute(foil))
    task = Task(rules, Space(x0, L2()), pipeline.predictor)
    points = Wishes().run(task)
    proofs = [proof for proof in points.certificates if isinstance(proof, WishProof)]
    assert len(proofs) == 3
    bound = recheck(task, proofs).bound
    assert torch.allclose(bound, task.space.loss(points.x), rtol=1e-6)
    # Without what was looked at plan by plan, less is proved; with what is no path, nothing.
    poorer = recheck(task, [replace(proof, multipliers={}, branches={}) for proof in proofs]).bound
    assert (poorer <= bound + 1e-12).all()
    assert (poorer < bound - 1e-6).any()
    margin = replace(task, rules=Rules(GRID, factual, Absolute(foil), margin=0.1))
    plan = granting(GRID, foil)[:1].numpy()
    forged = [replace(proof, rivals=np.concatenate([proof.rivals, plan])) for proof in proofs]
    assert (recheck(margin, forged).bound == 0).all()  # a plan need not beat another one


@pytest.mark.parametrize("search", [Sequential(), MDMM(step=0.05, max_steps=800), DerivativeFree()])
def test_every_search_for_absolute_serves_wishes(search: cfopt.Search) -> None:
    pipeline, x0 = linear(GRID, 2), normal(5, 4, seed=5)
    foil = Avoids("A-B") & Uses("G-K")
    exact = explain(x0, pipeline, Absolute(foil))
    found = explain(x0, pipeline, Absolute(foil), search=search)
    assert found.valid.sum() >= 4
    loss, least = found.loss[found.valid], exact.loss[found.valid]
    assert (loss >= least * (1 - 1e-6)).all()
    assert float(loss.sum()) <= 1.5 * float(least.sum())


def test_behind_a_network_every_answer_is_verified() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = [torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 17)]
        pipeline = Pipeline(torch.nn.Sequential(*layers).double(), GRID)
    x0, foil = normal(6, 4, seed=1), Uses("I-J")
    for kind in (Absolute, Relative):
        e = explain(x0, pipeline, kind(foil))
        assert e.valid.any()
        plans = (e.costs @ granting(GRID, foil).T).amin(1)
        rival = (e.costs @ GRID.decisions().T).amin(1)
        if kind is Relative:
            rival = (e.costs * e.factual).sum(1)
        assert (plans <= rival + 1e-5)[e.valid].all()


@pytest.mark.parametrize(("problem", "foil"), WISHES[:4])
def test_with_a_margin_a_wish_wins_against_what_does_not_grant_it(
    problem: Problem, foil: Foil
) -> None:
    pipeline, x0, margin = linear(problem, 7), normal(4, 4, seed=7), 0.1
    e = explain(x0, pipeline, Absolute(foil), margin=margin)
    assert e.optimal[e.valid].all()
    assert all(s.is_valid or s is Status.PROVED_INFEASIBLE for s in e.status)
    listed = problem.decisions()
    granted = torch.from_numpy(foil.conditions(problem).met(listed.numpy()))
    values = problem.sense.sign * e.costs @ listed.T
    plans, others = values[:, granted].amin(1), values[:, ~granted].amin(1)
    assert (plans + margin * plans.abs() <= others + 1e-6 * plans.abs())[e.valid].all()
    assert not e.tie.any()
    plain = explain(x0, pipeline, Absolute(foil))
    assert (e.loss >= plain.loss - 1e-9)[e.valid & plain.valid].all()
    # As a model of its own, whose decisions are not listed, it says the same.
    if isinstance(problem, Knapsack):
        model = MILP(
            problem.weights, -np.inf, problem.capacities, upper=1, integer=True, sense="max"
        )
        named = model.named(problem.cached_scene.names)
        wider = explain(
            e.x[e.valid], Pipeline(pipeline.predictor, named), Absolute(foil), margin=margin - 1e-6
        )
        assert wider.valid.all()


def test_a_wish_that_everything_grants_has_no_rival() -> None:
    pipeline, x0 = linear(GRID, 0), normal(2, 4)
    e = explain(x0, pipeline, Absolute(Uses("A")), margin=0.5)
    assert e.status == (Status.ALREADY_VALID,) * 2


def test_json_words_and_rows_keep_the_wish() -> None:
    pipeline, x0 = linear(GRID, 0), normal(3, 4)
    e = explain(x0, pipeline, Absolute(Uses("F") & Avoids(0)))
    again = Explanation.from_json(e.to_json(), problem=GRID)
    assert again.criterion.to_dict() == e.criterion.to_dict()
    assert again.summary() == e.summary()
    assert torch.allclose(again.wanted, e.wanted)
    joined = Explanation.concat([e[:1], e[1:]])
    assert joined.summary() == e.summary()
    assert e.summary().startswith("Why not through F and without A-B?")
    row = next(i for i, status in enumerate(e.status) if status is Status.VALID)
    assert GRID.describe(e.wanted[row].numpy()) in e.message[row]


def test_an_empty_wish_is_rejected_with_the_reason() -> None:
    with pytest.raises(InputError, match="there is no route through B and E"):
        explain(normal(1, 4), linear(GRID, 0), Absolute(Uses("B") & Uses("E")))
    with pytest.raises(InputError, match="margin below 1"):
        explain(normal(1, 4), linear(GRID, 0), Absolute(Uses("B")), margin=1.0)


def test_searches_about_one_plan_refuse_a_wish() -> None:
    with pytest.raises(InputError, match="leaves the plan open"):
        explain(normal(1, 4), linear(GRID, 0), Absolute(Uses("B")), search=CuttingPlane())
    plan = GRID.decisions()[0]
    with pytest.raises(InputError, match="not about a wish"):
        explain(normal(1, 4), linear(GRID, 0), Absolute(plan), search=Wishes())


def test_an_answer_level_with_a_third_plan_is_called_level() -> None:
    # At x = 1 the first is as cheap as the third, and the solver returns the first.
    predictor = torch.nn.Linear(1, 3).double()
    with torch.no_grad():
        predictor.weight[:] = torch.tensor([[-1.0], [0.0], [0.0]])
        predictor.bias[:] = torch.tensor([1.5, 1.0, 0.5])
    x0 = torch.zeros(1, 1, dtype=torch.float64)
    listed = np.eye(3)
    for problem in (
        Finite(listed),
        MILP(np.ones((1, 3)), 1, 1, upper=1, integer=True),
        cfopt.problems.ShortestPath([("a", "b")] * 3, "a", "b"),
    ):
        e = explain(x0, Pipeline(predictor, problem), Absolute(listed[0]))
        assert torch.allclose(e.x, torch.ones_like(e.x))
        assert e.tie.all()
        far = explain(torch.full_like(x0, 3.0), Pipeline(predictor, problem), Absolute(listed[0]))
        assert far.status == (Status.ALREADY_VALID,)
        assert not far.tie.any()


def test_ties_are_those_that_the_list_shows() -> None:
    generator = torch.Generator().manual_seed(4)
    costs = torch.randint(1, 4, (40, GRID.num_costs), generator=generator).double()
    best = GRID.solve(costs)
    values = costs @ GRID.decisions().T
    level = (values <= values.amin(1, keepdim=True) + 1e-9).sum(1) > 1
    assert 0 < int(level.sum()) < 40
    assert torch.equal(GRID.has_equal(costs, best, 1e-6), level)
    swept = GridShortestPath(3, 4)
    swept._finite = None
    assert torch.equal(swept.has_equal(costs, best, 1e-6), level)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_margins_on_maps_are_against_the_second_best_route(neighbours: int) -> None:
    terrain = TerrainShortestPath(3, 3, neighbours)
    routes = terrain.restricted(AtLeast(0, ["A1"])).decisions(10_000)
    generator = torch.Generator().manual_seed(1)
    costs = torch.rand((20, 9), generator=generator, dtype=torch.float64)
    costs[:4] = torch.randint(0, 2, (4, 9), generator=generator).double()
    best = terrain.solve(costs)
    second = terrain.runner_up(costs, best)
    assert not second.failures
    for row in range(len(costs)):
        others = routes[(routes - best[row]).abs().amax(1) > 0.5]
        assert torch.isclose(costs[row] @ second.decisions[row], (others @ costs[row]).min())
    pipeline = Pipeline(torch.nn.Softplus(), terrain)
    x0 = torch.randn((3, 9), generator=generator, dtype=torch.float64)
    wanted = terrain.solve(torch.rand((3, 9), generator=generator, dtype=torch.float64))
    e = explain(x0, pipeline, Absolute(wanted), margin=0.05)
    assert e.valid.all()
    for row in range(3):
        others = routes[(routes - wanted[row]).abs().amax(1) > 0.5]
        own = e.costs[row] @ wanted[row]
        assert 1.05 * own <= (others @ e.costs[row]).min() * (1 + 1e-5)


@pytest.mark.parametrize(
    "problem",
    [
        Finite([[1.0, 1.0]]),
        MILP([[1.0, 1.0]], 2, 2, upper=1, integer=True),
        TerrainShortestPath(1, 2),
    ],
)
def test_a_single_plan_wins_by_any_margin(problem: Problem) -> None:
    pipeline = linear(problem, 0)
    for margin in (0.0, 0.5):
        plan = torch.ones(2, dtype=torch.float64)
        e = explain(normal(2, 4), pipeline, Absolute(plan), margin=margin)
        assert e.status == (Status.ALREADY_VALID,) * 2
