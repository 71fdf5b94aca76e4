"""What a solver has returned is feasible; of other decisions an oracle may know nothing."""

from __future__ import annotations

import pickle

import numpy as np
import torch

import cfopt
from cfopt._typing import Array
from cfopt.problems import MILP, Oracle
from cfopt.problems.oracle import Returned


def on_the_ball(costs: Array) -> Array:
    """The best decision of the unit ball."""
    best: Array = -costs / np.linalg.norm(costs)
    return best


def up_to_five(costs: Array) -> Array:
    """The best decision of a box."""
    return np.where(costs < 0, 5.0, 0.0)


def test_fractional_answers_of_an_oracle_can_be_argued_for() -> None:
    pipeline = cfopt.Pipeline(torch.nn.Identity(), Oracle(on_the_ball, 3))
    contexts, others = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    e = cfopt.explain(contexts, pipeline, cfopt.Relative(pipeline.decide(others)))
    assert set(e.status) == {"valid"}
    # The decisions that explanations show were returned as well.
    again = cfopt.Pipeline(torch.nn.Identity(), pipeline.problem)
    for shown in (e.factual, e.decision):
        assert "rejected" not in cfopt.explain(others, again, cfopt.Relative(shown)).status


def test_answers_in_float32_are_known_again() -> None:
    pipeline = cfopt.Pipeline(torch.nn.Identity(), Oracle(on_the_ball, 3))
    contexts = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    wanted = pipeline.decide(contexts)
    assert wanted.dtype == torch.float32
    assert pipeline.problem.is_feasible(wanted.double() + 1e-8).all()


def test_what_an_oracle_never_returned_is_rejected_with_a_remedy() -> None:
    pipeline = cfopt.Pipeline(torch.nn.Identity(), Oracle(on_the_ball, 3))
    wanted = pipeline.decide(torch.eye(3).double())
    e = cfopt.explain(torch.eye(3).double(), pipeline, cfopt.Relative(wanted + 0.5))
    assert set(e.status) == {"rejected"}
    assert all("returned (by solve, or a pipeline's decide)" in m for m in e.message)
    assert all("is_feasible of an Oracle" in m for m in e.message)


def test_a_pickled_oracle_knows_what_it_has_returned() -> None:
    problem = Oracle(on_the_ball, 3)
    wanted = problem.solve(torch.eye(3).double())
    copy: Oracle = pickle.loads(pickle.dumps(problem))
    assert copy.is_feasible(wanted).all()


def test_a_decision_is_not_called_impossible_because_others_are_larger() -> None:
    fault = Oracle(up_to_five, 2).explain_faults(torch.tensor([[1.0, 0.0]]))[0]
    assert "never returned" not in fault
    assert "is not known" in fault


def test_only_the_latest_decisions_are_remembered() -> None:
    memory = Returned(most=30)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    memory.add(rows)
    assert memory.knows(rows).tolist() == [False] * 10 + [True] * 10
    memory.add(np.concatenate([rows[10:11], np.full((1, 3), np.nan), rows[:1]]))
    assert memory.knows(rows[[10, 11, 0]]).tolist() == [True, False, True]


def test_a_gap_of_highs_is_reported_with_its_answers() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(30, 90, (2, 10)).astype(float)
    room = weights.sum(axis=1) / 2
    every = ((np.arange(2**10)[:, None] >> np.arange(10)) & 1).astype(float)
    packings = every[(every @ weights.T <= room).all(axis=1)]
    for sense in ("min", "max"):
        costs = (1 + 0.5 * rng.normal(size=(20, 10))) * (1 if sense == "max" else -1)
        problem = MILP(weights, -np.inf, room, upper=1, integer=True, sense=sense, gap=0.1)
        decisions, shortfall = problem.optimise_within(costs)
        values = costs @ packings.T
        best = values.max(axis=1) if sense == "max" else values.min(axis=1)
        off = np.abs(best - (costs * decisions).sum(axis=1))
        assert off.max() > 1e-3  # the gap is made use of
        assert (off <= shortfall + 1e-9).all()
        assert (problem.exact().optimise_within(costs)[1] == 0).all()
