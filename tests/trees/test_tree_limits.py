"""Limits on sums of features behind trees: answers and proofs, against a program for each cell."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

pytest.importorskip("numba")
pytest.importorskip("treelite")
from sklearn.ensemble import RandomForestRegressor

import cfopt
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.exact.geometry import Leaf
from cfopt.exact.tree_task import TreeTask
from cfopt.problems import GridShortestPath
from cfopt.question.domain import Domain
from cfopt.question.features import LinearLimit
from cfopt.result.status import Status
from cfopt.search import TreeCells
from cfopt.trees.plain_check import plainly_proved

GRID = GridShortestPath(3, 3)


def _pipeline(seed: int, whole: bool = False) -> tuple[cfopt.Pipeline, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(150, 3))
    x = np.round(2 * x) if whole else x
    y = (x @ rng.binomial(1, 0.5, (3, 12)) / 2 + 3) ** 2 / 3 * rng.uniform(0.8, 1.2, (150, 12)) + 1
    forest = RandomForestRegressor(3, max_depth=3, random_state=seed).fit(x, y)
    return cfopt.Pipeline(forest, GRID), x


def _nearest(
    ends: Any, origin: np.ndarray, weights: np.ndarray, most: float, order: float
) -> float:
    """The least loss in a box with `<weights, x> <= most`, by SciPy; inf if there is none."""
    lower, upper = np.array(ends, dtype=float).T
    least = np.where(weights > 0, lower, upper)
    if (weights * least).sum() > most + 1e-9:
        return np.inf
    start = np.clip(origin, lower, upper)
    if (weights * start).sum() <= most:
        return float(np.linalg.norm(start - origin, order) ** (2 if order == 2 else 1))
    if order != 2:  # a variable for each change, or one for the largest
        sizes = np.eye(3) if order == 1 else np.ones((3, 1))
        count = sizes.shape[1]
        limits = np.block([[weights, np.zeros(count)], [np.eye(3), -sizes], [-np.eye(3), -sizes]])
        right = np.concatenate([[most], origin, -origin])
        bounds = [*zip(lower, upper, strict=True), *[(0, None)] * count]
        return float(linprog([0, 0, 0] + [1] * count, limits, right, bounds=bounds).fun)
    constraint = {"type": "ineq", "fun": lambda x: most - weights @ x, "jac": lambda x: -weights}
    found = minimize(
        lambda x: ((x - origin) ** 2).sum(), least.clip(-9, 9), jac=lambda x: 2 * (x - origin),
        bounds=list(zip(lower, upper, strict=True)), constraints=[constraint], method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    return float(found.fun)


@pytest.mark.parametrize(("order", "seed"), [(2, 0), (2, 1), (1, 2), (np.inf, 0), (np.inf, 3)])
def test_the_nearest_context_keeps_limits_on_sums(order: float, seed: int) -> None:
    pipeline, x = _pipeline(seed)
    decided, edges = pipeline.decide(x), pipeline.predictor.translation.ensemble.thresholds
    weights = np.array([1.0, -0.5, 2.0])
    proximity = {2: cfopt.L2(), 1: cfopt.L1(), np.inf: cfopt.LInf()}[order]
    compared = bent = 0
    for row in range(6):
        origin, most = x[row], float(weights @ x[row]) + 0.1
        wanted = decided[40 + row]
        if (wanted == decided[row]).all():
            continue
        given = {"search": TreeCells(), "proximity": proximity}
        asked = x[row : row + 1], pipeline, cfopt.Relative(wanted[None])
        limited = cfopt.Features(linear=[LinearLimit(weights.tolist(), upper=most)])
        found = cfopt.explain(*asked, features=limited, **given)
        cells = [list(itertools.pairwise([-np.inf, *own, np.inf])) for own in edges]
        inside = np.array([[np.nextafter(a, b) if np.isinf(b) else b for a, b in own] for own in
                           itertools.product(*cells)])  # fmt: skip
        terms = (
            pipeline.predictor.original(np.clip(inside, -1e9, 1e9))
            @ (wanted - decided[row]).numpy()
        )
        best = min(
            (
                _nearest(ends, origin, weights, most, order)
                for ends, term in zip(itertools.product(*cells), terms, strict=True)
                if term <= 0
            ),
            default=np.inf,
        )
        if found.status[0] is Status.PROVED_INFEASIBLE:
            assert best == np.inf
            continue
        assert found.valid[0]
        assert found.optimal[0]
        assert float(found.loss[0]) == pytest.approx(best, rel=1e-5, abs=1e-7)
        free = cfopt.explain(*asked, **given)
        compared += 1
        bent += float(free.loss[0]) < best - 1e-6
    assert compared > 2
    assert bent > 0 or (order, seed) == (np.inf, 0)


def _limited_task(whole: bool = False) -> Task:
    """A row whose limits matter."""
    pipeline, x = _pipeline(3, whole)
    contexts = torch.from_numpy(x)
    decided = pipeline.decide(contexts)
    row = int((decided != decided[0]).any(1).nonzero()[0])
    weights = [1.0, 1.0, 1.0]
    limits = cfopt.Features(
        linear=[LinearLimit(weights, lower=float(x[row].sum()), upper=float(x[row].sum()))],
        integer=[0, 1, 2] if whole else [],
    )
    here, now = contexts[row : row + 1], decided[row : row + 1]
    rules = Rules(GRID, now, cfopt.Relative(decided[:1]).bind(1, now))
    space = Space(here, cfopt.L2(), Domain.of(limits, here))
    return Task(rules, space, pipeline.predictor, differentiable=False)


def test_multipliers_of_limits_are_evaluated_anew_by_both_checks() -> None:
    task = _limited_task()
    points = TreeCells().run(task)
    proof, model = points.certificates[0], TreeTask(task)
    branch = proof.branches[-1]
    assert branch.limits
    bound = proof.bound(model, 0)
    assert proof.bound(model, 0, plainly_proved) == pytest.approx(bound, rel=1e-9)
    assert bound >= float(task.space.loss(points.x)[0]) * (1 - 1e-6)
    for changed in (
        {},
        {node: Leaf(0 * tree.multipliers) for node, tree in branch.limits.items()},
    ):
        weaker = replace(proof, branches={-1: replace(branch, limits=changed)})
        assert weaker.bound(model, 0) < bound * (1 - 1e-6)
        assert weaker.bound(model, 0, plainly_proved) < bound * (1 - 1e-6)


def test_whole_numbers_with_a_given_sum_agree_with_all_of_them() -> None:
    task = _limited_task(whole=True)
    points = TreeCells().run(task)
    origin = task.space.origin[0].numpy()
    every = np.array(list(itertools.product(range(-8, 9), repeat=3)), dtype=float)
    every = every[every.sum(1) == origin.sum()]
    direction = (task.rules.criterion.alternative[0] - task.rules.factual[0]).numpy()
    good = task.predictor.original(every) @ direction <= 0
    expected = ((every[good] - origin) ** 2).sum(1).min()
    assert points.found[0]
    assert float(task.space.loss(points.x)[0]) == pytest.approx(expected)
    assert points.certificates[0].bound(TreeTask(task), 0) >= expected * (1 - 1e-6)


def _regret(listed: np.ndarray, factual: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Whether the factual decision costs a tenth more than the best one: `(B, n) -> (B,)`."""
    return 1.1 * (costs @ listed.T).min(1) <= costs @ factual


def _centre(listed: np.ndarray, factual: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Whether a route through the centre is as good as any other: `(B, n) -> (B,)`."""
    values = costs @ listed.T
    through = cfopt.Uses("E").conditions(GRID).met(listed)
    return values[:, through].min(1) <= values.min(1) + 1e-9


@pytest.mark.parametrize("order", [2, 1])
@pytest.mark.parametrize(
    ("criterion", "holds"),
    [(cfopt.Epsilon(0.1), _regret), (cfopt.Absolute(cfopt.Uses("E")), _centre)],
    ids=["regret", "wish"],
)
def test_limits_on_sums_are_kept_and_proved_where_decisions_are_not_listed(
    criterion: cfopt.Criterion, holds: Any, order: int
) -> None:
    listed, weights = GRID.decisions().numpy(), np.array([1.0, -0.5, 2.0])
    proximity, search = {2: cfopt.L2(), 1: cfopt.L1()}[order], TreeCells(max_decisions=1)
    compared = bent = 0
    for seed, row in itertools.product((1, 2), range(5)):
        pipeline, x = _pipeline(seed)
        origin, most = x[row], float(weights @ x[row]) + 0.1
        factual = pipeline.decide(x[row : row + 1])[0].numpy()
        limited = cfopt.Features(linear=[LinearLimit(weights.tolist(), upper=most)])
        asked = x[row : row + 1], pipeline, criterion
        found = cfopt.explain(*asked, features=limited, proximity=proximity, search=search)
        if found.status[0] is Status.ALREADY_VALID:
            continue
        edges = pipeline.predictor.translation.ensemble.thresholds
        cells = [list(itertools.pairwise([-np.inf, *own, np.inf])) for own in edges]
        boxes = list(itertools.product(*cells))
        inside = np.array([[b if b < np.inf else a + 1 for a, b in own] for own in boxes])
        good = holds(listed, factual, pipeline.predictor.original(inside))
        best = min(
            (_nearest(boxes[k], origin, weights, most, order) for k in np.flatnonzero(good)),
            default=np.inf,
        )
        if best == np.inf:
            assert found.status[0] is Status.PROVED_INFEASIBLE
            continue
        assert found.valid[0]
        assert found.optimal[0], found.message[0]
        assert float(found.loss[0]) == pytest.approx(best, rel=1e-5, abs=1e-7)
        free = cfopt.explain(*asked, proximity=proximity, search=search)
        compared += 1
        bent += float(free.loss[0]) < best - 1e-6
    assert compared > 2
    assert bent > 0


def test_multipliers_of_limits_are_part_of_what_is_proved_of_all_decisions() -> None:
    task = _limited_task()
    regret = cfopt.Epsilon(0.1).bind(1, task.rules.factual)
    task = replace(task, rules=replace(task.rules, criterion=regret))
    points = TreeCells(max_decisions=1).run(task)
    proof, model = points.certificates[0], TreeTask(task)
    assert proof.limits
    bound = proof.bound(model, 0)
    assert bound >= float(task.space.loss(points.x)[0]) * (1 - 1e-6)
    for changed in ({}, {box: Leaf(0 * tree.multipliers) for box, tree in proof.limits.items()}):
        assert replace(proof, limits=changed).bound(model, 0) < bound * (1 - 1e-6)
