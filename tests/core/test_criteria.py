"""Criteria and regret against their definitions, by brute force over listed decisions."""

from __future__ import annotations

import pytest
import torch
from tests.pipelines import normal

import cfopt
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.verify import verify
from cfopt.problems import Finite, Problem
from cfopt.question import Criterion
from cfopt.question.proximity import L1, L2

DECISIONS = torch.tensor(
    [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [2, 0, 1, 1]], dtype=torch.float64
)


def _identity(x: torch.Tensor) -> torch.Tensor:
    return 1.0 * x


def _verdict(problem: Problem, criterion: Criterion, factual: torch.Tensor, costs: torch.Tensor):
    """What verification says where the context is the cost vector itself."""
    pipeline = cfopt.Pipeline(_identity, problem)
    bound = criterion.bind(len(costs), factual)
    rules = cfopt.Rules(pipeline.problem, factual, bound)
    return verify(Task(rules, cfopt.Space(costs, L2()), pipeline.predictor), costs)


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("empty", [True, False])
def test_epsilon_holds_exactly_where_the_regret_is_large_enough(
    sense: str, epsilon: float, empty: bool
) -> None:
    """For optima of both signs, and of value 0 where the empty decision is allowed."""
    listed = DECISIONS if empty else DECISIONS[[0, 1, 2, 4]]
    problem = Finite(listed, sense)
    costs = normal(400, 4, seed=3)
    factual = listed[
        torch.randint(0, len(listed), (400,), generator=torch.Generator().manual_seed(0))
    ]
    sign = 1.0 if sense == "min" else -1.0
    values = sign * costs @ listed.T
    best, old = values.min(1).values, sign * (costs * factual).sum(1)
    expected = (best + epsilon * best.abs() <= old) & (best < old - 1e-12)
    verdict = _verdict(problem, cfopt.Epsilon(epsilon), factual, costs)
    assert torch.equal(verdict.valid, expected)
    assert expected.any()
    assert not expected.all()
    assert torch.allclose(verdict.violation, best + epsilon * best.abs() - old)


@pytest.mark.parametrize("sense", ["min", "max"])
def test_relative_and_absolute_hold_where_they_are_defined_to(sense: str) -> None:
    problem = Finite(DECISIONS, sense)
    costs = normal(400, 4, seed=3)
    pick = torch.randint(0, 5, (2, 400), generator=torch.Generator().manual_seed(0))
    factual, wanted = DECISIONS[pick[0]], DECISIONS[pick[1]]
    sign = 1.0 if sense == "min" else -1.0
    old, new = sign * (costs * factual).sum(1), sign * (costs * wanted).sum(1)
    best = (sign * costs @ DECISIONS.T).min(1).values
    relative = _verdict(problem, cfopt.Relative(wanted), factual, costs)
    assert torch.equal(relative.valid, new <= old)
    absolute = _verdict(problem, cfopt.Absolute(wanted), factual, costs)
    assert torch.equal(absolute.valid, new <= best + 1e-12)
    assert 0 < int(absolute.valid.sum()) < 400


def test_a_plan_that_is_as_good_as_ever_has_no_regret_where_the_best_value_is_zero() -> None:
    """Two plans worth x and 2 + x: at x = 0 the first is still optimal, and nothing is wrong."""
    problem = Finite([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    pipeline = cfopt.Pipeline(lambda x: torch.cat([1 + x, 0 * x - 1, 2 + x], dim=1), problem)
    x0 = torch.tensor([[0.0]], dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.5), search=cfopt.MDMM(max_steps=2))
    assert e.status == ("best effort",)
    assert e.message[0].endswith("the factual decision is as good as any other")


def test_regret_is_zero_or_infinite_where_the_optimum_is_zero() -> None:
    problem = Finite([[0.0, 0.0], [1.0, 0.0]], "max")
    costs = torch.tensor([[-1.0, 5.0], [-1.0, 5.0], [2.0, 0.0]], dtype=torch.float64)
    decisions = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    regret = cfopt.metrics.relative_regret(problem, decisions, costs)
    assert regret.tolist() == [0.0, float("inf"), 1.0]


@pytest.mark.parametrize(
    "criterion", [cfopt.Relative, cfopt.Absolute, lambda _: cfopt.Epsilon(0.7)]
)
def test_the_gradient_of_h_is_that_of_finite_differences(
    criterion, knapsack: cfopt.Pipeline
) -> None:
    x0 = normal(6, 3)
    wanted = knapsack.decide(normal(6, 3, seed=5))
    factual = knapsack.decide(x0)
    bound = criterion(wanted).bind(6, factual)
    rules = cfopt.Rules(knapsack.problem, factual, bound, margin=0.1)
    task = Task(rules, cfopt.Space(x0, L2()), knapsack.predictor)
    x = x0.clone().requires_grad_()
    prices = task.prices(x)
    rival = task.rules.rival(prices.detach()).decisions
    direction = task.rules.direction(prices.detach(), rival)
    (gradient,) = torch.autograd.grad(prices, x, direction)

    def h(at: torch.Tensor) -> torch.Tensor:
        prices = task.prices(at).detach()
        return task.rules.judge(prices, task.rules.rival(prices).decisions).h

    for j in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[j] = 1e-6
        slope = (h(x0 + shift) - h(x0 - shift)) / 2e-6
        assert torch.allclose(slope, gradient[:, j], atol=1e-6)


@pytest.mark.parametrize("proximity", [L2(), L1(), L2([1.0, 2.0, 0.5]), L1([1.0, 2.0, 0.5])])
def test_proximities_are_what_they_say_and_so_are_their_gradients(proximity) -> None:
    x, origin = normal(5, 3), normal(5, 3, seed=1)
    scale = torch.ones(3, dtype=torch.float64) if proximity.scale is None else proximity.scale
    value, gradient = proximity.bind(x).evaluate(x, origin)
    scaled = (x - origin) / scale
    expected = scaled.norm(dim=1) ** 2 if isinstance(proximity, L2) else scaled.abs().sum(1)
    assert torch.allclose(value, expected)
    for j in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[j] = 1e-6
        bound = proximity.bind(x)
        slope = (bound(x + shift, origin) - bound(x - shift, origin)) / 2e-6
        assert torch.allclose(slope, gradient[:, j], atol=1e-6)


def test_a_feature_on_a_large_scale_moves_more() -> None:
    pipeline = cfopt.Pipeline(
        lambda x: torch.cat([x.sum(1, keepdim=True), 0 * x[:, :1]], 1), Finite(torch.eye(2))
    )
    x0 = torch.ones(1, 2, dtype=torch.float64)
    wanted = cfopt.Absolute([1.0, 0.0])
    search = cfopt.MDMM(step=0.05)
    scaled = cfopt.explain(
        x0, pipeline, wanted, search=search, features=cfopt.Features(scale=[1.0, 2.0])
    )
    # min a^2 + (b/2)^2 with a + b = -2: b moves four times as far.
    assert torch.allclose(
        scaled.x - x0, torch.tensor([[-0.4, -1.6]], dtype=torch.float64), atol=0.02
    )
    own = cfopt.explain(x0, pipeline, wanted, search=search, proximity=L2([1.0, 2.0]))
    assert torch.equal(own.x, scaled.x)


@pytest.mark.parametrize("value", [0, -1, True, float("nan"), float("inf"), "half", None])
def test_epsilon_needs_a_positive_number(value: object) -> None:
    with pytest.raises(InputError, match="> 0"):
        cfopt.Epsilon(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["a path", None, torch.zeros(2, 2, 2), [[1, 2], [3]]])
def test_alternatives_of_the_wrong_kind_are_refused(given: object) -> None:
    with pytest.raises(InputError, match="needs decisions"):
        cfopt.Absolute(given)


@pytest.mark.parametrize("scale", [[1.0, 0.0], [1.0, -1.0], [1.0, float("nan")]])
def test_scales_need_to_be_positive(scale: list) -> None:
    for make in (L1, L2, lambda s: cfopt.Features(scale=s)):
        with pytest.raises(InputError, match="> 0"):
            make(scale)
