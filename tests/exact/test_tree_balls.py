"""Balls behind trees: decided cell by cell, against all cells listed by thresholds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

import cfopt
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.tree_failure import TreeFailures
from cfopt.problems import Finite, GridShortestPath, Knapsack

NORMS = {cfopt.L2: 2, cfopt.L1: 1, cfopt.LInf: np.inf}


class Case:
    """A random forest with three contexts and a question about each."""

    def __init__(self, seed: int) -> None:
        draws = np.random.default_rng(seed)
        self.draws, p = draws, int(draws.integers(1, 4))
        sizes = draws.integers(1, 6, 6).astype(float)
        self.problem = [GridShortestPath(3, 3), Knapsack(sizes, 10.0)][seed % 2]
        x = draws.standard_normal((80, p)).round(2)
        y = 3 * (seed % 5 > 0) + np.tanh(x @ draws.standard_normal((p, self.problem.num_costs)))
        kind = [RandomForestRegressor, ExtraTreesRegressor][draws.integers(2)]
        trees = kind(int(draws.integers(1, 6)), max_depth=3, random_state=seed).fit(x, y)
        self.pipeline = cfopt.Pipeline(trees, self.problem)
        dtype = torch.float64 if seed % 3 else torch.float32
        self.x, other = (torch.from_numpy(x[draws.integers(0, 80, 3)]).to(dtype) for _ in range(2))
        self.factual = self.pipeline.decide(other).double()
        self.wanted = self.pipeline.decide(self.x).double()
        self.margin = [0.0, 0.02][seed % 7 == 0]
        self.epsilon = [0.05, 0.3, 1.5][draws.integers(3)]
        questions = [cfopt.Relative(self.wanted), cfopt.Absolute(self.wanted)]
        self.criterion = [*questions, cfopt.Epsilon(self.epsilon)][draws.integers(3)]
        if isinstance(self.criterion, cfopt.Epsilon):
            self.margin = 0.0
        self.units = np.where(draws.random(p) < 0.2, 0.0, draws.uniform(0.5, 2, p))
        norm = [*NORMS][draws.integers(3)]
        self.off_by = OffBy(draws.choice([0.05, 0.2, 0.5, 1.5]), norm(), self.units)

    def failures(self) -> TreeFailures:
        bound = self.criterion.bind(3, self.factual)
        rules = Rules(self.problem, self.factual, bound, self.margin, None, None, self.x.dtype)
        task = Task(rules, Space(self.x, cfopt.L2()), self.pipeline.predictor)
        return TreeFailures(task, self.off_by)

    def nearest(self, row: int, thresholds: list[np.ndarray]) -> float:
        """The distance of the nearest cell in which the criterion fails, by a list of them all."""
        x, axes = self.x[row].double().numpy(), []
        for f, own in enumerate(thresholds):
            ends = list(zip(np.append(-np.inf, own), np.append(own, np.inf), strict=True))
            if not self.units[f]:
                ends = [(low, high) for low, high in ends if low < x[f] <= high]
            places = [(min(max(x[f], np.nextafter(low, np.inf)), high)) for low, high in ends]
            unit = self.units[f] or 1.0
            axes.append([(abs(place - x[f]) / unit, place) for place in places])
        cells = np.array(list(itertools.product(*axes)))
        far = np.linalg.norm(cells[:, :, 0], NORMS[type(self.off_by.norm)], axis=1)
        inside = far <= self.off_by.radius
        fails = self.h(row, torch.from_numpy(cells[inside][:, :, 1])) > 1e-6
        return float(far[inside][fails.numpy()].min(initial=np.inf))

    def h(self, row: int, x: torch.Tensor) -> torch.Tensor:
        """How far the criterion is from holding in contexts, by a list of all decisions."""
        prices = self.problem.sense.sign * self.pipeline.costs(x).detach().double()
        listed = self.problem.decisions()
        factual = prices @ self.factual[row]
        if isinstance(self.criterion, cfopt.Epsilon):
            best = (prices @ listed.T).amin(1)
            return best + self.epsilon * best.abs() - factual
        own = prices @ self.wanted[row]
        if self.margin:
            listed = listed[(listed != self.wanted[row]).any(1)]
        best = (prices @ listed.T).amin(1)
        against = factual if isinstance(self.criterion, cfopt.Relative) else best
        return own - against + self.margin * own.abs()


@pytest.mark.parametrize("seed", range(28))
def test_the_nearest_failure_is_that_of_a_list_of_all_cells(seed: int) -> None:
    case = Case(seed)
    failures = case.failures()
    for row in range(3):
        found = failures.nearest(row)
        least = case.nearest(row, failures.model.thresholds)
        assert found.distance == pytest.approx(least, abs=1e-6)
        assert found.bound == found.distance
        if found.x is not None:
            assert case.h(row, failures.model.contexts(found.x[None])) > 0


def test_a_threshold_at_the_edge_of_a_ball_belongs_to_the_cell_below() -> None:
    """The library compares in single precision: 0.5 goes left, and so does what rounds to it."""
    x = np.array([[0.0], [1.0]])
    tree = RandomForestRegressor(1, bootstrap=False).fit(x, np.array([[1.0, 2.0], [2.0, 1.0]]))
    pipeline = cfopt.Pipeline(tree, Finite(np.eye(2)))
    criterion, fixed = cfopt.Absolute(np.array([1.0, 0.0])), cfopt.Features(immutable=[0])
    for at, holds in ((0.5, False), (0.4 + 2e-7, False), (0.4, True)):
        x0 = np.array([[at]])
        e = cfopt.explain(x0, pipeline, criterion, robust=cfopt.Ball(0.1), features=fixed)
        assert e.valid.tolist() == [holds], at


@pytest.fixture(scope="module")
def robust() -> tuple[cfopt.Pipeline, cfopt.Explanation]:
    """Answers behind a forest that hold in balls, from contexts where they do not."""
    draws = np.random.default_rng(0)
    problem = GridShortestPath(3, 3)
    x = draws.standard_normal((300, 3))
    y = 3 + np.tanh(x @ draws.standard_normal((3, problem.num_costs)))
    pipeline = cfopt.Pipeline(
        RandomForestRegressor(8, max_depth=4, random_state=0).fit(x, y), problem
    )
    wanted = pipeline.decide(x[10:16])
    return pipeline, cfopt.explain(x[:6], pipeline, cfopt.Absolute(wanted), robust=cfopt.Ball(0.1))


def test_no_dense_sample_refutes_a_valid_answer(
    robust: tuple[cfopt.Pipeline, cfopt.Explanation],
) -> None:
    pipeline, e = robust
    assert e.valid.sum() >= 4
    draws = np.random.default_rng(1)
    for row in e.valid.nonzero().flatten().tolist():
        off = draws.standard_normal((5000, 3))
        off *= 0.1 * draws.random((5000, 1)) ** (1 / 3) / np.linalg.norm(off, axis=1)[:, None]
        costs = pipeline.costs(e.x[row].numpy() + off).detach()
        loss = (costs * (e.alternative[row] - pipeline.problem.solve(costs))).sum(1)
        assert (loss <= 1e-6 * costs.abs().sum(1)).all()


def test_plain_answers_bound_robust_ones_and_the_radius_is_at_least_that_of_the_ball(
    robust: tuple[cfopt.Pipeline, cfopt.Explanation],
) -> None:
    pipeline, e = robust
    plain = cfopt.explain(e.x0, pipeline, cfopt.Absolute(e.alternative))
    assert (e.loss >= plain.loss - 1e-9)[e.valid].all()
    assert (e.bound[e.valid] > 0).any()
    assert (e.bound <= e.loss + 1e-9)[e.valid].all()
    assert set(e[e.valid].radius_kind) == {"exact"}
    assert (e.radius[e.valid] >= 0.1 - 1e-9).all()
