"""Limits of time, by a clock that only the solver or the predictor moves; what is said without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

import cfopt
from cfopt._typing import Array
from cfopt.engine.progress import Progress
from cfopt.errors import InputError
from cfopt.exact.relu import relax
from cfopt.problems import MILP, Finite, Oracle
from cfopt.problems.wishes import Uses
from cfopt.search import Edits, Fallback, Reference

DECISIONS = np.array([[1.0, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]])


class Clock:
    """A clock that stands still unless it is moved, or a little moves when it is read."""

    def __init__(self) -> None:
        self.now = self.glance = 0.0

    def __call__(self) -> float:
        self.now += self.glance
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("cfopt.clock.now", clock)
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
    # Of the last one not even the factual decision is known.
    assert e.status == ("best effort", "best effort", "rejected")
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
    # The factual decision takes a second, twice of which is kept to verify what is found. What is
    # verified in between takes a second or two.
    assert 39.0 <= ends[0] <= 41.0
    assert 58.0 <= ends[1] <= 61.0
    assert ends[2] == pytest.approx(78.0)


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
    assert 45 <= int(e.steps.min()) == int(e.steps.max()) <= 61
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


torch.manual_seed(4)
NETWORK = torch.nn.Sequential(
    torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4)
).double()
DATA = torch.randn(80, 3, generator=torch.Generator().manual_seed(3)).double()


def predictors() -> dict[str, Any]:
    with torch.no_grad():
        seen = NETWORK(DATA).numpy()
    forest = RandomForestRegressor(6, max_depth=4, random_state=0).fit(DATA.numpy(), seen)
    matrix = linear().weight.detach().numpy()
    return {
        "affine": linear(),
        "network": NETWORK,
        "forest": forest,
        "function": lambda x: np.sin(np.asarray(x) @ matrix.T) + 4,
    }


QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ball": {"robust": cfopt.Ball(0.05)},
    "models": {"robust": cfopt.Models([NETWORK])},
    "few": {"features": cfopt.Features(max_changes=1)},
    "options": {"options": 4},
    "prices": {"prices": cfopt.Prices()},
    "reference": {"reference": DATA},
    "outlier": {"reference": DATA, "plausibility": cfopt.LocalOutlier()},
    "margin": {"margin": 0.05},
}
CRITERIA: dict[str, Callable[[], cfopt.Criterion]] = {
    "absolute": lambda: cfopt.Absolute(torch.from_numpy(DECISIONS)[[2, 3, 0]]),
    "epsilon": lambda: cfopt.Epsilon(0.1),
    "wish": lambda: cfopt.Absolute(Uses(0)),
}
SEARCHES: dict[str, cfopt.Search] = {
    "auto": cfopt.Auto(),
    "sequential": cfopt.Sequential(),
    "tangents": cfopt.Tangents(),
    "free": cfopt.DerivativeFree(),
    "certify": cfopt.Certify(),
    "trees": cfopt.TreeCells(),
    "cuts": cfopt.CuttingPlane(),
    "list": cfopt.Enumeration(),
    "edits": Edits(),
    "reference": Reference(DATA),
}
#: Beyond its limit, a call may use a second to verify what was found, and ends the solves that it
#: has begun: they take a second each.
LIMIT, MOST = 10.0, 4


def late(calls: list[float], began: float) -> int:
    """How many solves were begun after the limit."""
    return sum(ended - 1.0 > began + LIMIT for ended in calls)


def asked_in_time(clock: Clock, call: Callable[[cfopt.Pipeline], object], model: str) -> None:
    """Ask behind a slow solver: reading the clock takes a moment, too, so that all searches end."""
    calls: list[float] = []
    pipeline = cfopt.Pipeline(predictors()[model], slow(clock, calls))
    clock.glance, began = 0.01, clock.now
    try:
        call(pipeline)
    except InputError:
        return  # of a search that does not serve such questions
    assert len(calls) >= len(CONTEXTS)
    assert late(calls, began) <= MOST


@pytest.mark.parametrize("model", ["affine", "network", "forest", "function"])
@pytest.mark.parametrize("kind", list(QUESTIONS))
def test_every_question_ends_in_time(clock: Clock, model: str, kind: str) -> None:
    for criterion in CRITERIA.values():
        asked = {"criterion": criterion(), "time_limit": LIMIT, **QUESTIONS[kind]}
        asked_in_time(clock, partial(cfopt.explain, CONTEXTS, **asked), model)


@pytest.mark.parametrize("name", list(SEARCHES))
def test_every_search_ends_in_time(clock: Clock, name: str) -> None:
    for model in ("affine", "network", "forest"):
        for criterion in CRITERIA.values():
            asked = {"criterion": criterion(), "search": SEARCHES[name], "reference": DATA}
            call = partial(cfopt.explain, CONTEXTS, time_limit=LIMIT, **asked)
            asked_in_time(clock, call, model)


@pytest.mark.parametrize("model", ["affine", "network", "forest"])
def test_what_asks_several_questions_ends_in_time(clock: Clock, model: str) -> None:
    for criterion in (one() for one in CRITERIA.values()):
        group = partial(cfopt.explain_group, CONTEXTS, criterion=criterion, time_limit=LIMIT)
        asked_in_time(clock, group, model)
        asked_in_time(clock, partial(group, share=0.5), model)
        trade_off = partial(cfopt.trade_off, CONTEXTS, criterion=criterion, time_limit=LIMIT)
        asked_in_time(clock, trade_off, model)


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_questions_about_costs_and_remedies_end_in_time(clock: Clock, criterion: str) -> None:
    predictor, wanted = linear(), CRITERIA[criterion]()
    features = cfopt.Features(immutable=[0], lower=[-2, -2, -2], upper=[2, 2, 2])
    e = cfopt.explain(CONTEXTS, cfopt.Pipeline(predictor, Finite(DECISIONS)), wanted)
    costs = e.costs_before.detach()
    calls: list[float] = []
    pipeline = cfopt.Pipeline(predictor, slow(clock, calls))
    began = clock.now
    cfopt.explain_costs(costs, pipeline.problem, wanted, time_limit=LIMIT)
    assert late(calls, began) <= MOST
    e = cfopt.explain(CONTEXTS, pipeline, wanted, features=features)
    calls.clear()
    began = clock.now
    cfopt.remedies(e, pipeline, time_limit=LIMIT)
    assert late(calls, began) <= MOST


def test_a_group_has_its_change_in_time(clock: Clock) -> None:
    """Half of the time is for single rows, and what helps them is made one change in the rest."""
    calls: list[float] = []
    pipeline = cfopt.Pipeline(predictors()["network"], slow(clock, calls))
    began = clock.now
    group = cfopt.explain_group(CONTEXTS, pipeline, cfopt.Epsilon(0.01), time_limit=400.0)
    assert group.valid
    assert clock.now - began <= 425.0


def test_proofs_about_many_decisions_end_in_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case of a network takes a second to bound, and each decision has cases of its own."""
    calls: list[float] = []

    def slowly(*given: Any) -> Any:
        clock.now += 1.0
        calls.append(clock.now)
        return relax(*given)

    monkeypatch.setattr("cfopt.search.cases.relax", slowly)
    pipeline = cfopt.Pipeline(NETWORK, Finite(DECISIONS))
    search = cfopt.Certify(cfopt.Sequential(restarts=0))
    for limited in ({"time_limit": LIMIT}, {"search": replace(search, seconds=LIMIT)}):
        calls.clear()
        began = clock.now
        cfopt.explain(CONTEXTS, pipeline, cfopt.Epsilon(0.5), **{"search": search, **limited})
        assert late(calls, -1e9) > 4  # it began to prove
        assert late(calls, began) <= MOST
