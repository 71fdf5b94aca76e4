"""Limits of time, by a clock that only the solver or the predictor moves; what is said without."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import Tensor

import cfopt
from cfopt._typing import Array
from cfopt.engine.progress import Progress
from cfopt.errors import InputError
from cfopt.problems import MILP, Finite, Oracle
from cfopt.search import Fallback

DECISIONS = np.array([[1.0, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]])


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def slow(clock: Clock, calls: list[float]) -> Oracle:
    """A solver that takes a second for each row, and does not list its decisions."""

    def solve(costs: Array) -> Array:
        clock.now += 1.0
        calls.append(clock.now)
        return DECISIONS[(DECISIONS @ costs).argmin()]

    return Oracle(solve, 4, binary=True)


def linear() -> torch.nn.Linear:
    torch.manual_seed(1)
    layer = torch.nn.Linear(3, 4).double()
    with torch.no_grad():
        layer.bias += 4
    return layer


CONTEXTS = torch.randn(3, 3, generator=torch.Generator().manual_seed(2)).double()


def holds(predictor: torch.nn.Linear, x: Tensor, factual: Tensor, epsilon: float) -> Tensor:
    """Definition 2.3, by brute force."""
    with torch.no_grad():
        costs = predictor(x)
    best = (costs @ torch.from_numpy(DECISIONS).T).min(1).values
    return best + epsilon * best.abs() <= (costs * factual).sum(1) + 1e-5


@pytest.mark.parametrize("limit", [60.0, 400.0])
def test_auto_ends_with_what_it_has_when_time_is_up(clock: Clock, limit: float) -> None:
    calls: list[float] = []
    predictor = linear()
    pipeline = cfopt.Pipeline(predictor, slow(clock, calls))
    began = len(calls)
    e = cfopt.explain(CONTEXTS, pipeline, cfopt.Epsilon(0.05), time_limit=limit)
    # Beside the search there are the factual decisions, and what verifies each row now and then.
    assert len(calls) - began <= limit + 10 * len(CONTEXTS)
    found = torch.tensor([status.is_valid for status in e.status])
    assert found.any()
    assert holds(predictor, e.x, e.factual, 0.05)[found].all()


def test_a_row_that_has_no_time_says_so(clock: Clock) -> None:
    calls: list[float] = []
    pipeline = cfopt.Pipeline(linear(), slow(clock, calls))
    e = cfopt.explain(CONTEXTS, pipeline, cfopt.Epsilon(0.5), time_limit=1e-6)
    assert set(e.status) == {"best effort"}
    assert all("time is up" in message for message in e.message)


def test_the_first_of_a_chain_leaves_half_of_the_time_to_the_next(clock: Clock) -> None:
    ends: list[float] = []

    class Waiting(cfopt.MDMM):
        def steps(self, task):  # type: ignore[no-untyped-def]
            ends.append(task.pipeline.problem.deadline)
            clock.now = ends[-1]
            yield from cfopt.MDMM(max_steps=1).steps(task)

    pipeline = cfopt.Pipeline(linear(), slow(clock, []))
    search = Fallback((Waiting(), Waiting(), Waiting()))
    cfopt.explain(CONTEXTS[:1], pipeline, cfopt.Epsilon(0.9), search=search, time_limit=80.0)
    # The factual decision, and what is verified in between, take a second or two.
    assert 40.0 <= ends[0] <= 42.0
    assert 60.0 <= ends[1] <= 63.0
    assert ends[2] == pytest.approx(80.0)


def test_the_problem_of_a_limited_search_is_left_without_a_limit(clock: Clock) -> None:
    matrix, limits = np.ones((1, 4)), 2.0
    problem = MILP(matrix, limits, limits, upper=1, integer=True, gap=0.1)
    late = problem.until(5.0)
    costs = torch.tensor([[3.0, 1.0, 2.0, 4.0]]).double()
    expected = problem.exact().solve(costs)
    assert torch.equal(late.exact().solve(costs), expected)
    clock.now = 6.0
    assert late.attempt(costs).failures == {0: "time is up"}
    assert late.exact().attempt(costs).failures == {0: "time is up"}
    assert Finite(DECISIONS).until(5.0).attempt(costs).failures == {0: "time is up"}
    assert torch.equal(problem.exact().solve(costs), expected)


def test_mdmm_ends_when_time_is_up_and_reports_each_second(clock: Clock) -> None:
    weights = linear()

    def predictor(x: Tensor) -> Tensor:
        clock.now += 0.5  # one pass forward for each step
        costs: Tensor = weights(x)
        return costs

    pipeline = cfopt.Pipeline(predictor, Finite(DECISIONS))
    reports: list[Progress] = []
    e = cfopt.explain(
        CONTEXTS,
        pipeline,
        cfopt.Epsilon(0.9),
        search=cfopt.MDMM(step=1e-6),
        time_limit=30.0,
        on_progress=reports.append,
    )
    assert 50 <= int(e.steps.min()) == int(e.steps.max()) <= 61
    assert all("time is up" in message for message in e.message)
    assert len(reports) >= 15


def test_epsilon_answers_without_a_proof_say_why(clock: Clock) -> None:
    predictor = linear()
    listed = cfopt.Pipeline(predictor, Finite(DECISIONS))
    e = cfopt.explain(CONTEXTS, listed, cfopt.Epsilon(0.05))
    assert all(message.endswith("no nearer context would do") for message in e.message)
    unlisted = cfopt.Pipeline(predictor, slow(clock, []))
    e = cfopt.explain(CONTEXTS, unlisted, cfopt.Epsilon(0.05))
    assert set(e.status) == {"valid"}
    why = "nothing is proved about nearer ones, since the decisions of Oracle are more than 100000"
    assert all(why in message for message in e.message)


@pytest.mark.parametrize("limit", [0, -1.0, "soon"])
def test_limits_that_are_no_time_are_refused(limit: object) -> None:
    pipeline = cfopt.Pipeline(linear(), Finite(DECISIONS))
    with pytest.raises(InputError, match="needs a time_limit > 0 in seconds"):
        cfopt.explain(CONTEXTS, pipeline, cfopt.Epsilon(0.1), time_limit=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "search",
    [cfopt.Auto(), cfopt.Sequential(), cfopt.Tangents(), cfopt.MDMM(), cfopt.DerivativeFree()],
    ids=lambda search: type(search).__name__,
)
def test_every_search_ends_in_time_where_only_the_predictor_is_slow(
    clock: Clock, search: cfopt.Search
) -> None:
    weights = linear()

    def predictor(x: Tensor) -> Tensor:
        clock.now += 1.0
        costs: Tensor = weights(x).square()
        return costs

    pipeline = cfopt.Pipeline(predictor, Finite(DECISIONS))
    wanted = torch.from_numpy(DECISIONS)[[2, 3, 0]]
    reports: list[Progress] = []
    e = cfopt.explain(
        CONTEXTS,
        pipeline,
        cfopt.Relative(wanted),
        search=search,
        time_limit=20.0,
        on_progress=reports.append,
    )
    assert clock.now <= 40.0  # a round that has begun is ended, and what it found is verified
    assert reports
    late = [m for s, m in zip(e.status, e.message, strict=True) if s == "best effort"]
    assert all("time is up" in message for message in late)


def test_what_was_found_in_time_is_verified_after_it(clock: Clock) -> None:
    pipeline = cfopt.Pipeline(linear(), slow(clock, []))

    class Finding(cfopt.Search):
        def steps(self, task):  # type: ignore[no-untyped-def]
            found = cfopt.Auto().run(task)
            clock.now = 1e6
            yield Progress(1, 0, len(task), found)

    e = cfopt.explain(
        CONTEXTS, pipeline, cfopt.Epsilon(0.05), search=Fallback((Finding(),)), time_limit=1e5
    )
    assert e.valid.all()
