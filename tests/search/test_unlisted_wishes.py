"""Wishes whose plans are not listed: bounds against the nearest of all plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.pipelines import normal
from tests.search.test_wishes import GRID, PACKING, WISHES, linear

from cfopt import (
    L1,
    Absolute,
    Avoids,
    Condition,
    Features,
    Relative,
    Status,
    UnlistedWishes,
    Uses,
    explain,
)
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.far_plans import FarPlans
from cfopt.exact.verify import recheck
from cfopt.problems import MILP, GridShortestPath
from cfopt.question.proximity import L2


@pytest.mark.parametrize("kind", [Absolute, Relative])
@pytest.mark.parametrize("norm", [L2(), L1()])
def test_bounds_are_below_the_nearest_of_all_plans(kind: type, norm: L2 | L1) -> None:
    proved = 0
    for seed, (problem, foil) in enumerate(WISHES):
        pipeline, x0 = linear(problem, seed), normal(3, 4, seed=seed)
        exact = explain(x0, pipeline, kind(foil), proximity=norm)
        search = UnlistedWishes(first=None, max_plans=3)
        e = explain(x0, pipeline, kind(foil), proximity=norm, search=search)
        both = e.valid & exact.valid
        assert torch.equal(e.valid, exact.valid)
        assert (e.loss >= exact.loss * (1 - 1e-6))[both].all()
        assert (e.bound <= exact.loss * (1 + 1e-6))[both].all()
        assert (e.bound > 0)[both & (exact.loss > 0)].all()
        assert torch.allclose(e.loss[e.optimal], exact.loss[e.optimal], rtol=1e-6)
        proved += int((e.optimal & (e.loss > 0)).sum())
    assert proved


def test_a_wish_of_few_plans_is_settled_once_all_were_looked_at() -> None:
    foil = Avoids("A-B") & Uses("G-K") & Uses("E-F")
    pipeline, x0 = linear(GRID, 2), normal(3, 4, seed=5)
    exact = explain(x0, pipeline, Absolute(foil))
    e = explain(x0, pipeline, Absolute(foil), search=UnlistedWishes())
    assert e.optimal.all()
    assert torch.allclose(e.loss, exact.loss, rtol=1e-6)


def test_whole_numbers_are_bounded_too() -> None:
    # Between 0 and 2: what a column may be away from the centre is more than 1.
    rng = np.random.default_rng(0)
    matrix, limit = rng.integers(0, 4, (2, 4)).astype(float), np.array([7.0, 6.0])
    model = MILP(matrix, -np.inf, limit, upper=2.0, integer=[True] * 4, sense="max")
    pipeline, x0 = linear(model, 1), normal(2, 4, seed=2)
    foil = Condition({0: 1.0, 1: 1.0}, lower=2.0)
    every = np.stack(np.meshgrid(*[np.arange(3.0)] * 4), -1).reshape(-1, 4)
    every = every[(every @ matrix.T <= limit).all(axis=1)]
    plans = torch.from_numpy(every[every[:, 0] + every[:, 1] >= 2])
    answers = [explain(x0, pipeline, Absolute(plan)) for plan in plans]
    best = torch.stack([torch.where(a.valid, a.loss, torch.inf) for a in answers]).amin(0)
    e = explain(x0, pipeline, Absolute(foil), search=UnlistedWishes())
    assert e.valid.any()
    assert (e.bound <= best * (1 + 1e-6) + 1e-12).all()
    assert (e.loss >= best * (1 - 1e-6))[e.valid].all()


def test_plans_that_cannot_be_listed_have_an_answer_and_a_bound() -> None:
    grid = GridShortestPath(12, 12)
    pipeline, x0 = linear(grid, 0), normal(2, 4, seed=1)
    with torch.no_grad():
        pipeline.predictor.bias += 2.0
    e = explain(x0, pipeline, Absolute(Avoids(0)))
    for row, status in enumerate(e.status):
        assert status.is_valid
        if status is Status.VALID:
            assert 0 < e.bound[row] <= e.loss[row] * (1 + 1e-9)
            assert e.optimal[row] or "none can have less than" in e.message[row]


def test_a_length_that_is_too_long_proves_nothing() -> None:
    pipeline, x0, foil = linear(PACKING, 3), normal(3, 4, seed=3), WISHES[3][1]
    rules = Rules(PACKING, pipeline.decide(x0), Absolute(foil))
    task = Task(rules, Space(x0, L2()), pipeline.predictor)
    points = UnlistedWishes(first=None, max_plans=1).run(task)
    proofs = [proof for proof in points.certificates if isinstance(proof, FarPlans)]
    assert len(proofs) == 3
    bound = recheck(task, proofs).bound
    assert (bound > 0).any()
    longer = [replace(proof, length=1.5 * proof.length + 1, looked=()) for proof in proofs]
    assert (recheck(task, longer).bound == 0).all()


def test_other_tasks_are_refused_with_the_reason() -> None:
    pipeline, x0, foil = linear(GRID, 2), normal(3, 4, seed=5), WISHES[1][1]
    with pytest.raises(InputError, match="win by a margin"):
        explain(x0, pipeline, Absolute(foil), margin=0.1, search=UnlistedWishes())
    with pytest.raises(InputError, match="not about a wish"):
        explain(x0, pipeline, Absolute(GRID.decisions()[0]), search=UnlistedWishes())
    features = Features(max_changes=2)
    e = explain(x0, pipeline, Absolute(foil), features=features, search=UnlistedWishes())
    assert e.valid.any()
