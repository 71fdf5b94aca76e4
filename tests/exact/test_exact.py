"""Exact searches against independent formulations and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.independent import (
    cuts,
    epsilon_by_brute_force,
    is_feasible,
    mixed_tasks,
    nearest_l1,
    nearest_l2,
    shortest_by_duality,
)
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.datasets import synthetic
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack, Oracle
from cfopt.testing import SearchContract


@pytest.fixture(scope="module")
def grid5() -> cfopt.Pipeline:
    problem = GridShortestPath(5, 5)
    return cfopt.Pipeline(random_linear(10, problem.num_costs, bias=6.0), problem)


def test_absolute_grid_answers_are_those_of_linear_programming_duality(
    grid5: cfopt.Pipeline,
) -> None:
    x0 = normal(100, 10)
    wanted = another(grid5, x0)
    e = cfopt.explain(x0, grid5, cfopt.Absolute(wanted), search=cfopt.CuttingPlane())
    assert set(e.status) == {"valid"}
    assert e.optimal.all()
    assert e.solves.double().mean() <= 6
    expected = [shortest_by_duality(grid5, x0[i].numpy(), wanted[i].numpy()) for i in range(100)]
    assert torch.allclose(e.loss, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=0)
    assert torch.allclose(e.bound, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=0)


def test_absolute_knapsack_verdicts_are_those_of_all_decisions_at_once() -> None:
    data = synthetic.knapsack(300, 2, 10, seed=3)
    predictor = random_linear(2, 10, seed=2, bias=3.0)
    pipeline = cfopt.Pipeline(predictor, data.problem)
    x0 = data.contexts[:60].double()
    listed = data.problem.decisions().numpy()
    picked = np.random.default_rng(0).integers(len(listed), size=60)
    wanted = torch.from_numpy(listed[picked])
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.CuttingPlane())
    for row in range(60):
        g, h = cuts(pipeline, x0[row].numpy(), wanted[row].numpy() - listed)
        kept = np.abs(g).sum(1) > 0
        expected = nearest_l2(g[kept], h[kept])
        if e.status[row] == "proved infeasible":
            assert not is_feasible(g, h)
            assert e.bound[row] == torch.inf
        elif e.status[row] == "valid":
            assert e.optimal[row]
            assert e.loss[row].item() == pytest.approx(expected, rel=1e-6)
        else:
            assert e.status[row] == "already valid"
    assert {"valid", "proved infeasible"} <= set(e.status)


@pytest.mark.parametrize("make", [cfopt.L2, cfopt.L1])
@pytest.mark.parametrize("search", [cfopt.ClosedForm(), cfopt.CuttingPlane()])
def test_relative_answers_are_projections(make, search, grid: cfopt.Pipeline) -> None:
    x0, scale = normal(20, 4), [0.5, 1.0, 2.0, 4.0]
    wanted = another(grid, x0)
    e = cfopt.explain(x0, grid, cfopt.Relative(wanted), proximity=make(scale), search=search)
    assert e.valid.all()
    assert e.optimal.all()
    assert not e.solves.any()
    factual = grid.decide(x0)
    nearest = nearest_l2 if make is cfopt.L2 else nearest_l1
    for row in range(20):
        g, h = cuts(grid, x0[row].numpy(), (wanted - factual)[row].numpy()[None])
        assert e.loss[row].item() == pytest.approx(nearest(g * np.array(scale), h), rel=1e-7)


def test_a_plan_that_no_context_helps_is_told_so_by_the_closed_form() -> None:
    layer = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
        layer.bias.copy_(torch.tensor([1.0, 2.0]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(2)))
    wanted = torch.tensor([0.0, 1.0])
    for criterion in (cfopt.Relative(wanted), cfopt.Absolute(wanted)):
        e = cfopt.explain(normal(3, 2), pipeline, criterion)
        assert set(e.status) == {"proved infeasible"}
        assert e.gap.isnan().all()
        assert "in no context does the alternative beat" in e.message[0]


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("make", [cfopt.L2, cfopt.L1])
def test_epsilon_answers_are_those_of_brute_force(epsilon: float, make) -> None:
    grid = GridShortestPath(3, 3)
    weights = np.array([[3.0, 5.0, 4.0, 2.0], [4.0, 1.0, 6.0, 5.0]])
    nearest = nearest_l2 if make is cfopt.L2 else nearest_l1
    for problem, bias in ((grid, 3.0), (grid, -0.3), (Knapsack(weights, [9.0, 8.0]), 1.0)):
        pipeline = cfopt.Pipeline(random_linear(3, problem.num_costs, seed=5, bias=bias), problem)
        x0 = normal(6, 3, seed=2)
        factual = pipeline.decide(x0)
        e = cfopt.explain(
            x0, pipeline, cfopt.Epsilon(epsilon), proximity=make(), search=cfopt.Enumeration()
        )
        for row in range(6):
            expected = epsilon_by_brute_force(
                pipeline, x0[row].numpy(), factual[row].numpy(), epsilon, nearest
            )
            if expected == np.inf:
                assert e.status[row] == "proved infeasible"
                continue
            assert e.optimal[row]
            assert e.loss[row].item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_epsilon_above_one_needs_no_list_where_doing_nothing_is_feasible(
    knapsack: cfopt.Pipeline,
) -> None:
    x0 = normal(10, 3)
    criterion = cfopt.Epsilon(3.0)
    listed = cfopt.explain(x0, knapsack, criterion, search=cfopt.Enumeration())
    cut = cfopt.explain(x0, knapsack, criterion, search=cfopt.CuttingPlane())
    assert listed.status == cut.status
    assert {"valid", "proved infeasible"} == set(cut.status)
    assert torch.allclose(listed.loss, cut.loss, rtol=1e-7)
    assert torch.equal(cut.optimal, cut.valid)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_exact_epsilon_answers_are_never_farther_than_those_of_mdmm(
    epsilon: float, grid5: cfopt.Pipeline
) -> None:
    x0 = normal(30, 10)
    exact = cfopt.explain(x0, grid5, cfopt.Epsilon(epsilon))
    assert exact.optimal.all()
    search = cfopt.MDMM(step=0.01, max_steps=1500)
    local = cfopt.explain(x0, grid5, cfopt.Epsilon(epsilon), search=search)
    both = local.valid
    assert both.any()
    # MDMM may stop where the criterion is still missed by a millionth of the costs.
    assert (exact.loss[both] <= local.loss[both] * (1 + 1e-3)).all()
    assert exact.loss[both].sum() <= local.loss[both].sum() * (1 + 1e-5)


def test_a_margin_is_part_of_the_optimum(grid: cfopt.Pipeline) -> None:
    x0, margin = normal(12, 4), 0.07
    wanted = another(grid, x0)
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), margin=margin)
    assert e.optimal.all()
    assert not e.tie.any()
    listed = grid.problem.decisions().numpy()
    for row in range(12):
        y = wanted[row].numpy()
        others = listed[(listed != y).any(1)]
        directions = np.concatenate([y - others + margin * y, y - others - margin * y])
        expected = nearest_l2(*cuts(grid, x0[row].numpy(), directions))
        assert e.loss[row].item() == pytest.approx(expected, rel=1e-6)


def test_a_relative_margin_is_part_of_the_optimum(grid: cfopt.Pipeline) -> None:
    x0, margin = normal(12, 4), 0.05
    wanted, factual = another(grid, x0), grid.decide(x0)
    e = cfopt.explain(x0, grid, cfopt.Relative(wanted), margin=margin)
    assert e.optimal.all()
    assert set(e.method) == {"closed form"}
    for row in range(12):
        y, old = wanted[row].numpy(), factual[row].numpy()
        directions = np.stack([y - old + margin * y, y - old - margin * y])
        expected = nearest_l2(*cuts(grid, x0[row].numpy(), directions))
        assert e.loss[row].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("make", "power", "count"), [(cfopt.L2, 2, 60), (cfopt.L1, 1, 20)])
def test_mixed_features_are_optimal_against_all_whole_number_choices(make, power, count) -> None:
    statuses = set()
    for task in mixed_tasks(count):
        e = cfopt.explain(
            task.x0,
            task.pipeline,
            cfopt.Absolute(task.wanted),
            features=task.features,
            proximity=make(),
        )
        best = task.answer(power)
        statuses.add(e.status[0])
        if e.status[0] == "proved infeasible":
            assert best == np.inf
        else:
            assert e.optimal.all(), e.message
            assert e.loss[0].item() == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert {"valid", "proved infeasible"} <= statuses


def test_an_unbounded_program_yields_cuts_along_its_rays() -> None:
    # min cost . y over y0 + y1 >= 1, y >= 0: unbounded as soon as one cost is negative.
    problem = MILP([[1.0, 1.0]], 1.0, np.inf)
    layer = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.5], [-2.0, 1.0]]))
        layer.bias.copy_(torch.tensor([1.0, 4.0]))
    pipeline = cfopt.Pipeline(layer, problem)
    x0 = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([0.0, 1.0])
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.CuttingPlane())
    # Best of all needs 0 <= cost1 <= cost0, nothing else.
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    directions = np.array([[-1.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])
    expected = nearest_l2(directions @ weight, -directions @ bias)
    assert e.optimal.all()
    assert e.loss.item() == pytest.approx(expected, rel=1e-7)

    with torch.no_grad():  # now cost0 falls wherever cost1 does
        layer.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, 1.0]]))
        layer.bias.copy_(torch.tensor([1.0, 2.0]))
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.CuttingPlane())
    assert e.status == ("proved infeasible",)


def test_a_gap_makes_cuts_cheaper_and_answers_no_worse() -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(3, 9, (2, 14)).astype(float)
    rough = MILP(weights, -np.inf, [30, 28], upper=1, integer=True, sense="max", gap=0.2)
    exact = MILP(weights, -np.inf, [30, 28], upper=1, integer=True, sense="max")
    predictor = random_linear(4, 14, seed=9, bias=3.0)
    x0 = normal(8, 4)
    wanted = cfopt.Pipeline(predictor, exact).decide(normal(8, 4, seed=1))
    criterion = cfopt.Absolute(wanted)
    a = cfopt.explain(x0, cfopt.Pipeline(predictor, rough), criterion)
    b = cfopt.explain(x0, cfopt.Pipeline(predictor, exact), criterion)
    assert a.optimal.all()
    assert torch.allclose(a.loss, b.loss, rtol=1e-6)


def test_any_oracle_can_be_explained_exactly(grid: cfopt.Pipeline) -> None:
    def function(costs: np.ndarray) -> np.ndarray:
        return grid.problem.optimise(costs[None])[0]

    oracle = cfopt.Pipeline(grid.predictor, Oracle(function, grid.problem.num_costs))
    x0 = normal(10, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    a, b = (cfopt.explain(x0, pipeline, criterion) for pipeline in (grid, oracle))
    assert b.optimal.all()
    assert torch.allclose(a.loss, b.loss, rtol=1e-9)


def test_stopped_early_it_keeps_a_bound_that_holds_and_a_valid_point_if_there_is_one(
    grid5: cfopt.Pipeline,
) -> None:
    x0 = normal(60, 10, seed=8)
    criterion = cfopt.Absolute(another(grid5, x0))
    best = cfopt.explain(x0, grid5, criterion)
    short = cfopt.explain(x0, grid5, criterion, search=cfopt.CuttingPlane(max_rounds=2))
    assert (short.bound <= best.loss * (1 + 1e-9)).all()
    stopped = ~short.optimal & short.valid
    assert stopped.any()
    assert (short.gap[stopped] > 0).all()
    assert (short.loss[short.valid] >= best.loss[short.valid] * (1 - 1e-9)).all()
    assert "best effort" in short.status
    search = cfopt.CuttingPlane()
    late = cfopt.explain(x0, grid5, criterion, search=search, time_limit=1e-9)
    assert (late.steps == 1).all()
    assert (late.bound <= best.loss * (1 + 1e-9)).all()


def test_more_features_than_costs_and_float32_are_no_obstacle() -> None:
    problem = GridShortestPath(3, 3)
    layer = random_linear(20, problem.num_costs, bias=5.0)
    x0 = normal(15, 20)
    wide = cfopt.Pipeline(layer, problem)
    criterion = cfopt.Absolute(another(wide, x0))
    exact = cfopt.explain(x0, wide, criterion)
    single = cfopt.Pipeline(random_linear(20, problem.num_costs, bias=5.0).float(), problem)
    e = cfopt.explain(x0.float(), single, criterion)
    assert exact.optimal.all()
    assert e.optimal.all()
    assert e.x.dtype == torch.float32
    assert torch.allclose(e.loss.double(), exact.loss, rtol=1e-4)


def test_two_decisions_that_cannot_be_beaten_at_once_are_named() -> None:
    # Costs (x, -x, 0.5): the third decision needs x >= 0.5 and x <= -0.5.
    layer = torch.nn.Linear(1, 3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 0.0, 0.5]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(3)))
    e = cfopt.explain([[1.0]], pipeline, cfopt.Absolute(torch.tensor([0.0, 0.0, 1.0])))
    assert e.status == ("proved infeasible",)
    assert "whenever the alternative beats A, B beats it" in e.message[0]
    clash = e.clash[0]
    assert clash is not None
    assert sorted(clash.decisions.argmax(1).tolist()) == [0, 1]
    assert clash.limits == clash.locked == ()


def test_three_decisions_that_cannot_be_beaten_at_once_are_named() -> None:
    # Three directions that add up to nothing; the fourth decision would have to be below all.
    angle = 2 * np.pi * np.arange(3) / 3
    layer = torch.nn.Linear(2, 4).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:3] = torch.tensor(np.stack([np.cos(angle), np.sin(angle)], 1))
        layer.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.1]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(4)))
    wanted = torch.tensor([0.0, 0.0, 0.0, 1.0])
    e = cfopt.explain([[1.0, 0.2]], pipeline, cfopt.Absolute(wanted))
    assert "no context lets the alternative beat A, B and C at once" in e.message[0]
    assert len(e.clash[0].decisions) == 3


def test_an_immutable_feature_that_takes_part_is_named_and_unlocking_it_helps() -> None:
    layer = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 1.0], [0.1, 0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 1.0]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(2)))
    wanted = cfopt.Absolute(torch.tensor([0.0, 1.0]))
    names = ["weather", "traffic"]
    bounds = {"lower": {"weather": -5.0}}
    locked = cfopt.Features(names, immutable=["traffic"], **bounds)
    e = cfopt.explain([[0.0, 0.0]], pipeline, wanted, features=locked)
    assert e.status == ("proved infeasible",)
    assert "unlocking traffic could help" in e.message[0]
    assert e.clash[0].locked == ("traffic",)
    assert e.clash[0].limits == ("weather",)
    free = cfopt.explain([[0.0, 0.0]], pipeline, wanted, features=cfopt.Features(names, **bounds))
    assert free.valid.all()


class TestClosedForm(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.ClosedForm()

    def criteria(self, pipeline: cfopt.Pipeline) -> list[cfopt.Criterion]:
        return super().criteria(pipeline)[:1]


class TestCuttingPlane(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.CuttingPlane()

    def criteria(self, pipeline: cfopt.Pipeline) -> list[cfopt.Criterion]:
        return super().criteria(pipeline)[:2]


class TestEnumeration(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.Enumeration()

    def criteria(self, pipeline: cfopt.Pipeline) -> list[cfopt.Criterion]:
        return [cfopt.Epsilon(0.2), cfopt.Epsilon(1.0), cfopt.Epsilon(2.0)]


class TestAuto(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.Auto()
