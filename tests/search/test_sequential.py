"""Searches for predictors that are not affine: sequential, reference contexts, and auto."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.pipelines import another, normal, random_linear
from torch import nn

import cfopt
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, fit, mlp
from cfopt.problems import MILP, Finite, GridShortestPath, Oracle
from cfopt.search import Fallback, Reference, Refined
from cfopt.search.incumbents import Incumbents
from cfopt.testing import SearchContract
from cfopt.testing.search_cases import cases


@pytest.fixture(scope="module")
def deep() -> tuple[cfopt.Pipeline, torch.Tensor, torch.Tensor]:
    """A 3-layer network on the 5x5 grid, with contexts and alternatives."""
    data = synthetic.grid(700, 10, 5, 5, seed=135)
    contexts, costs = data.contexts.double(), data.costs.double()
    torch.manual_seed(0)
    predictor = mlp(10, data.problem.num_costs, 3).double()
    generator = torch.Generator().manual_seed(0)
    fit(
        predictor,
        contexts[:600],
        costs[:600],
        MSE(),
        epochs=40,
        learning_rate=3e-3,
        generator=generator,
    )
    pipeline = cfopt.Pipeline(predictor, data.problem)
    x0 = contexts[600:620]
    others = data.problem.solve(costs[640:660])
    factual = pipeline.decide(x0)
    wanted = [
        next(y for y in others.roll(-i, 0) if (y != own).any()) for i, own in enumerate(factual)
    ]
    return pipeline, x0, torch.stack(wanted)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["absolute", "epsilon"])
def test_it_finds_more_and_nearer_answers_than_mdmm(kind: str, deep) -> None:
    pipeline, x0, wanted = deep
    criterion = cfopt.Absolute(wanted) if kind == "absolute" else cfopt.Epsilon(1.0)
    ours = cfopt.explain(x0, pipeline, criterion, search=cfopt.Sequential())
    theirs = cfopt.explain(x0, pipeline, criterion, search=cfopt.MDMM(step=0.1, max_steps=1000))
    assert ours.valid.sum() >= theirs.valid.sum()
    both = ours.valid & theirs.valid
    assert both.sum() >= 10
    assert (ours.loss[both] <= theirs.loss[both] * 1.001).double().mean() >= 0.9
    assert ours.loss[both].mean() <= theirs.loss[both].mean()


def test_on_an_affine_pipeline_it_ends_at_the_optimum(grid: cfopt.Pipeline) -> None:
    x0 = normal(20, 4)
    wanted = another(grid, x0)
    for criterion in (cfopt.Relative(wanted), cfopt.Absolute(wanted), cfopt.Epsilon(0.3)):
        for proximity in (cfopt.L2([1.0, 2.0, 0.5, 1.0]), cfopt.L1([1.0, 2.0, 0.5, 1.0])):
            best = cfopt.explain(x0, grid, criterion, proximity=proximity)
            found = cfopt.explain(
                x0, grid, criterion, proximity=proximity, search=cfopt.Sequential()
            )
            assert found.valid.all()
            assert (found.loss >= best.loss * (1 - 1e-4)).all()
            assert (found.loss <= best.loss * 1.02 + 1e-6).double().mean() >= 0.9


def test_regret_above_one_with_a_negative_best_value_is_met_by_every_decision(knapsack) -> None:
    x0 = normal(12, 3)
    best = cfopt.explain(x0, knapsack, cfopt.Epsilon(2.0))
    found = cfopt.explain(x0, knapsack, cfopt.Epsilon(2.0), search=cfopt.Sequential())
    both = best.valid & found.valid
    assert both.sum() >= 6
    assert not (found.valid & ~best.valid).any()
    assert (found.loss[both] <= best.loss[both] * 1.1).double().mean() >= 0.7


def test_a_margin_is_met(deep) -> None:
    pipeline, x0, wanted = deep
    e = cfopt.explain(
        x0[:8], pipeline, cfopt.Absolute(wanted[:8]), margin=0.02, search=cfopt.Sequential()
    )
    assert e.valid.any()
    found = e[e.valid]
    assert torch.equal(pipeline.decide(found.x), found.alternative)


def test_the_same_seed_gives_the_same_answers_and_the_global_one_is_left_alone(deep) -> None:
    pipeline, x0, wanted = deep
    state = torch.get_rng_state()
    search = cfopt.Sequential(restarts=1, samples=32)
    a, b = (
        cfopt.explain(x0[:6], pipeline, cfopt.Absolute(wanted[:6]), search=search) for _ in range(2)
    )
    assert torch.equal(a.x, b.x)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_best_valid_point_is_kept_and_else_the_least_violating_one() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, rounds, each = 30, 5, 3
    x = torch.randn((rounds, rows, each, 2), generator=generator)
    loss, excess = torch.rand((2, rounds, rows, each), generator=generator)
    holds = torch.rand((rounds, rows, each), generator=generator) < 0.05
    best = Incumbents(torch.zeros((rows, 2)), torch.float32)
    for k in range(rounds):
        best.offer(torch.arange(rows), x[k], loss[k], excess[k], holds[k])
    assert 0 < best.found.sum() < rows
    for row in range(rows):
        valid, measures = holds[:, row].flatten(), (loss[:, row], excess[:, row])
        losses, misses = (part.flatten() for part in measures)
        order = losses.where(valid, torch.inf) if valid.any() else misses
        assert torch.equal(best.x[row], x[:, row].flatten(0, 1)[order.argmin()])
        assert best.found[row] == valid.any()


def test_solves_and_passes_are_counted() -> None:
    problem = GridShortestPath(3, 3)
    solved, passed = [], []

    def function(costs: np.ndarray) -> np.ndarray:
        solved.append(len(costs))
        return problem.optimise(costs)

    module = nn.Sequential(random_linear(4, 5), nn.Tanh(), random_linear(5, 12, bias=4.0))

    def predictor(x: torch.Tensor) -> torch.Tensor:
        passed.append(len(x))
        return module(x)

    oracle = Oracle(function, problem.num_costs, batched=True)
    pipeline = cfopt.Pipeline(predictor, oracle)
    x0 = normal(5, 4)
    factual = pipeline.decide(x0)
    criterion = cfopt.Epsilon(0.3).bind(5, factual)
    rules = cfopt.Rules(oracle, factual, criterion)
    task = cfopt.Task(rules, cfopt.Space(x0, cfopt.L2()), pipeline.predictor)
    solved.clear()
    passed.clear()
    points = cfopt.Sequential(restarts=1, samples=16, starts=2).run(task)
    assert points.solves.sum() == sum(solved)
    # Forward passes are counted here; Jacobian rows come on top.
    assert points.passes.sum() > sum(passed)
    solved.clear()
    passed.clear()
    points = cfopt.MDMM(max_steps=30, patience=30).run(task)
    assert points.solves.sum() == sum(solved)
    assert points.passes.sum() == 2 * sum(passed)


def test_the_nearest_valid_reference_is_the_start_and_the_answer_is_no_farther(deep) -> None:
    pipeline, x0, _ = deep
    known = normal(300, 10, seed=5)
    decided = pipeline.decide(known)
    wanted = decided[:10]
    e = cfopt.explain(x0[:10], pipeline, cfopt.Absolute(wanted), search=_Nothing(), reference=known)
    assert e.valid.all()
    for row in range(10):
        same = (decided == wanted[row]).all(1)
        distance = (known - x0[row]).square().sum(1).masked_fill(~same, torch.inf)
        assert e.loss[row] <= distance.min() * (1 + 1e-9)
        assert f"reference {int(distance.argmin())}" in e.method[row]
        assert "nothing, then" in e.method[row]


class _Nothing(cfopt.Search):
    """Finds nothing."""

    def steps(self, task: cfopt.Task):
        rows = torch.arange(len(task))
        none = torch.zeros_like(rows)
        found = none.bool()
        methods = ("nothing",) * len(task)
        points = cfopt.Points(
            rows, task.space.origin, found, none + 3, none + 2, none + 1, methods=methods
        )
        yield cfopt.Progress(1, 0, len(task), points)


def test_a_reference_that_is_not_allowed_is_no_start(deep) -> None:
    pipeline, x0, _ = deep
    known = torch.cat([normal(50, 10, seed=5), x0[:1]])
    known[-1, 1:] = normal(1, 9, seed=9)
    wanted = cfopt.Absolute(pipeline.decide(known)[-1])
    features = cfopt.Features(immutable=[0])
    e = cfopt.explain(
        x0[0], pipeline, wanted, search=_Nothing(), reference=known, features=features
    )
    assert e.valid.all()
    assert e.x[0, 0] == x0[0, 0]
    assert "reference 50" in e.method[0]
    e = cfopt.explain(
        x0[0], pipeline, wanted, search=_Nothing(), reference=known[:50], features=features
    )
    assert e.status == ("best effort",)
    assert "no reference is valid and allowed" in e.message[0]


def test_references_may_come_in_any_form_and_are_checked(deep) -> None:
    pipeline, x0, _ = deep
    known = normal(40, 10, seed=5)
    known[3] = torch.nan
    for given in (known, known.numpy(), known.tolist()):
        e = cfopt.explain(x0[:2], pipeline, cfopt.Epsilon(0.5), search=_Nothing(), reference=given)
        assert e.valid.any()
    with pytest.raises(cfopt.InputError, match="reference needs contexts of shape"):
        cfopt.explain(x0[:2], pipeline, cfopt.Epsilon(0.5), reference=known[:, :4])
    with pytest.raises(cfopt.InputError, match="reference needs at least one"):
        cfopt.explain(x0[:2], pipeline, cfopt.Epsilon(0.5), reference=known[:0])


@pytest.mark.parametrize(
    ("affine", "criterion", "method"),
    [
        (True, "relative", "closed form"),
        (True, "absolute", "cutting planes"),
        (True, "epsilon", "enumeration"),
        (False, "absolute", "sequential"),
        (False, "epsilon", "sequential"),
        (False, "relative", "sequential"),
    ],
)
def test_auto_picks_what_fits(affine: bool, criterion: str, method: str, grid) -> None:
    x0 = normal(4, 4)
    predictor = grid.predictor if affine else nn.Sequential(grid.predictor, nn.Softplus())
    pipeline = cfopt.Pipeline(predictor, grid.problem)
    wanted = another(grid, x0)
    ask = {
        "relative": cfopt.Relative(wanted),
        "absolute": cfopt.Absolute(wanted),
        "epsilon": cfopt.Epsilon(0.2),
    }[criterion]
    e = cfopt.explain(x0, pipeline, ask)
    assert {name for name, ok in zip(e.method, e.valid, strict=True) if ok} == {method}
    assert e.optimal.all() == affine


def test_a_chain_adds_up_and_keeps_the_bound_of_what_came_before(grid: cfopt.Pipeline) -> None:
    x0 = normal(30, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    best = cfopt.explain(x0, grid, criterion)
    stages = (_Nothing(), cfopt.CuttingPlane(max_rounds=1), cfopt.Sequential(restarts=0))
    e = cfopt.explain(x0, grid, criterion, search=Fallback(stages))
    through = torch.tensor(["sequential" in method for method in e.method])
    assert through.any()
    assert (e.steps >= 4).all()
    assert (e.passes[~through] == 1).all()
    assert (e.solves >= 2).all()
    assert (e.bound[through] > 0).all()
    assert (e.bound <= best.loss * (1 + 1e-9)).all()
    assert all(method.startswith("nothing, then cutting planes") for method in e.method)


class _Liar(cfopt.Search):
    """Says of every context that it explains itself."""

    def steps(self, task: cfopt.Task):
        rows = torch.arange(len(task))
        ones = torch.ones_like(rows)
        yield cfopt.Progress(
            1, 0, len(task), cfopt.Points(rows, task.space.origin, ones.bool(), ones, ones, ones)
        )


def test_a_chain_does_not_stop_at_a_claim_that_does_not_hold(grid: cfopt.Pipeline) -> None:
    x0 = normal(5, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    e = cfopt.explain(x0, grid, criterion, search=Fallback((_Liar(), cfopt.CuttingPlane())))
    assert e.optimal.all()


def test_polishing_never_makes_an_answer_worse(deep) -> None:
    pipeline, x0, wanted = deep
    rough = cfopt.MDMM(step=0.1, max_steps=400)
    plain = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=rough)
    search = Refined(rough, cfopt.Sequential(restarts=0))
    fine = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=search)
    assert torch.equal(fine.valid, plain.valid)
    assert (fine.loss <= plain.loss * (1 + 1e-12)).all()
    assert fine.loss[fine.valid].sum() < 0.9 * plain.loss[plain.valid].sum()
    better = fine.loss < plain.loss
    assert all(("polished" in m) == bool(b) for m, b in zip(fine.method, better, strict=True))


def test_a_proof_ends_a_chain(grid: cfopt.Pipeline) -> None:
    layer = random_linear(2, 2)
    with torch.no_grad():
        layer.weight[1] = layer.weight[0]
        layer.bias.copy_(torch.tensor([0.0, 1.0]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(2)))
    e = cfopt.explain(
        normal(2, 2), pipeline, cfopt.Absolute(torch.tensor([0.0, 1.0])), reference=normal(5, 2)
    )
    assert set(e.status) == {"proved infeasible"}
    assert set(e.method) == {"cutting planes"}


# Powers of 2 add no rounding, which may decide between two valid pieces that are far apart.
@pytest.mark.parametrize("factor", [2.0**-10, 2.0**10])
def test_the_units_of_the_features_do_not_matter(factor: float, deep) -> None:
    pipeline, x0, wanted = deep
    scaled = cfopt.Pipeline(lambda x: pipeline.predictor(x / factor), pipeline.problem)
    criterion = cfopt.Absolute(wanted[:10])
    search = cfopt.Sequential(restarts=1, samples=64)
    a = cfopt.explain(x0[:10], pipeline, criterion, search=search)
    b = cfopt.explain(factor * x0[:10], scaled, criterion, search=search)
    assert a.status == b.status
    assert torch.allclose(a.loss, b.loss / factor**2, rtol=1e-9)


def test_a_solver_with_a_gap_does_not_mislead_it() -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(3, 9, (2, 12)).astype(float)
    limits = {"upper": 1, "integer": True, "sense": "max"}
    rough = MILP(weights, -np.inf, [25, 22], gap=0.2, **limits)
    module = nn.Sequential(random_linear(4, 6), nn.Tanh(), random_linear(6, 12, seed=2, bias=4.0))
    pipeline = cfopt.Pipeline(module, rough)
    known = normal(20, 4, seed=3)
    wanted = rough.exact().solve(module(known).detach())
    search = cfopt.Sequential(restarts=1, samples=16, starts=2)
    e = cfopt.explain(
        normal(5, 4), pipeline, cfopt.Absolute(wanted[:5]), search=search, reference=known
    )
    assert e.valid.all()


def test_references_of_solvers_with_noise_are_recognised() -> None:
    def solve(costs: np.ndarray) -> np.ndarray:
        best = np.zeros(4)
        best[costs.argmin()] = 1.0
        return best - 1e-9 * costs  # better than the best by its tolerance, as LP solvers are

    module = nn.Sequential(random_linear(3, 5), nn.Tanh(), random_linear(5, 4, seed=1))
    noisy = Oracle(solve, 4, is_feasible=lambda y: bool((np.abs(y * (1 - y)) < 1e-6).all()))
    pipeline = cfopt.Pipeline(module, noisy)
    known = normal(60, 3, seed=1)
    decided = pipeline.decide(known).round()
    x0 = normal(6, 3)
    own = pipeline.decide(x0).round()
    wanted = torch.stack([next(y for y in decided if (y != mine).any()) for mine in own])
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=Reference(known))
    assert e.valid.all()


def test_traces_of_one_search_do_not_disturb_the_others(deep) -> None:
    pipeline, x0, wanted = deep
    weak = cfopt.Sequential(max_steps=1, restarts=0)
    search = Fallback((weak, cfopt.MDMM(max_steps=20, trace=True)))
    e = cfopt.explain(x0[:8], pipeline, cfopt.Absolute(wanted[:8]), search=search)
    through = ["MDMM" in method for method in e.method]
    assert any(through)
    assert all((len(trace) > 0) == moved for trace, moved in zip(e.traces, through, strict=True))


def test_of_two_searches_that_miss_the_nearer_miss_is_kept(deep) -> None:
    pipeline, x0, wanted = deep
    criterion = cfopt.Absolute(wanted)
    weak = cfopt.Sequential(max_steps=2, restarts=0)
    alone = cfopt.explain(x0, pipeline, criterion, search=weak)
    chained = cfopt.explain(
        x0, pipeline, criterion, search=Fallback((weak, cfopt.MDMM(step=1e-6, max_steps=2)))
    )
    missed = ~alone.valid & ~chained.valid
    assert missed.any()
    assert (chained.violation[missed] <= alone.violation[missed]).all()


class TestSequential(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.Sequential(samples=64, restarts=1)


@pytest.mark.long
class TestReference(SearchContract):
    def search(self) -> cfopt.Search:
        # Contexts that some row may move to: others are of no use where a feature is locked.
        among_contexts = [case for name, case in cases().items() if name != "codes"]
        allowed = [case.samples[:20].flatten(0, 1) for case in among_contexts]
        known = torch.cat([normal(200, 4, seed=5), *allowed])
        return Refined(Reference(known), cfopt.Sequential(restarts=0))
