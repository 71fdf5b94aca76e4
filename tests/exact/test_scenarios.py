"""Epsilon in a ball: decisions may take turns, and the nearest answer is proved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from benchmarks.few_changes import nearest_with_few_rows
from benchmarks.independent import affine
from tests.pipelines import random_linear

import cfopt
from cfopt.engine.progress import Progress
from cfopt.exact.geometry import Euclidean, HalfSpaces, Leaf, Master, System
from cfopt.exact.scenario_proof import Asked, Part, ScenarioProof, Settled
from cfopt.problems import Finite, GridShortestPath
from cfopt.search.base import Search

RADIUS = 0.25


@pytest.fixture(scope="module")
def pipeline() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(2, problem.num_costs, seed=4, bias=0.4), problem)


def unexplained(pipeline: cfopt.Pipeline, factual: np.ndarray, epsilon: float) -> list[np.ndarray]:
    """The d of all `<theta, d> > 0` of the two convex sets in which nothing is explained."""
    listed = pipeline.problem.decisions().numpy()
    return [multiple * listed - factual for multiple in (1 + epsilon, 1 - epsilon)]


def away(pipeline: cfopt.Pipeline, sets: list[np.ndarray], x: np.ndarray) -> float:
    """How far a context is from both sets, by quadprog."""
    weight, bias = affine(pipeline)
    there = weight @ x + bias
    return min(nearest_with_few_rows(-(d @ weight), d @ there) for d in sets) ** 0.5


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_no_context_that_is_nearer_keeps_away_from_what_is_not_explained(
    pipeline: cfopt.Pipeline, epsilon: float
) -> None:
    x0 = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(epsilon), robust=cfopt.Ball(RADIUS))
    open_rows = [row for row, one in enumerate(e.status) if one is cfopt.Status.VALID]
    assert open_rows
    assert e.optimal[open_rows].all()
    angles = np.linspace(0, 2 * np.pi, 36, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for row in open_rows:
        sets = unexplained(pipeline, e.factual[row].numpy(), epsilon)
        assert away(pipeline, sets, e.x[row].numpy()) >= RADIUS * (1 - 1e-5)
        for share in (0.3, 0.7, 0.97, 0.999):
            nearer = x0[row].numpy() + share * float(e.loss[row]) ** 0.5 * circle
            assert max(away(pipeline, sets, x) for x in nearer) < RADIUS


def test_an_answer_for_which_decisions_take_turns_is_nearer_than_any_of_one_decision(
    pipeline: cfopt.Pipeline,
) -> None:
    x0 = torch.randn(12, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(1.0), robust=cfopt.Ball(RADIUS))
    weight, bias = affine(pipeline)
    gains = []
    for row in range(len(x0)):
        theta = weight @ x0[row].numpy() + bias
        more, less = unexplained(pipeline, e.factual[row].numpy(), 1.0)
        alone = np.inf
        for pair in zip(more, less, strict=True):
            normals = np.stack(pair) @ weight
            limits = -np.stack(pair) @ theta - RADIUS * np.linalg.norm(normals, axis=1)
            alone = min(alone, nearest_with_few_rows(normals, limits))
        assert float(e.loss[row]) <= alone * (1 + 1e-6)
        gains.append(1 - float(e.loss[row]) / alone)
    assert e.optimal.all()
    assert max(gains) > 0.01


@dataclass(frozen=True)
class Altered(Search):
    """What enumeration proves, each proof altered before it is handed over."""

    alter: Callable[[ScenarioProof], ScenarioProof]
    heeds_variation: ClassVar[bool] = True

    def steps(self, task: cfopt.Task) -> Iterator[Progress]:
        for progress in cfopt.Enumeration().steps(task):
            if (done := progress.finished) is not None:
                proofs = tuple(
                    self.alter(one) if isinstance(one, ScenarioProof) else one
                    for one in done.certificates
                )
                progress = replace(progress, finished=replace(done, certificates=proofs))
            yield progress


def without_cases(proof: ScenarioProof) -> ScenarioProof:
    """The proof without what it proves of single decisions."""
    part = proof.part
    return replace(proof, part=part if isinstance(part, Settled) else part.before)


def without_multipliers(proof: ScenarioProof) -> ScenarioProof:
    """The proof with multipliers of 0 in every part."""

    def emptied(part: Part) -> Part:
        if isinstance(part, Settled):
            assert isinstance(part.tree, Leaf)
            return replace(part, tree=Leaf(0 * part.tree.multipliers))
        further = {k: emptied(one) for k, one in part.further.items()}
        return replace(part, before=emptied(part.before), further=further)

    return replace(proof, part=emptied(proof.part))


@pytest.mark.parametrize("alter", [without_cases, without_multipliers])
def test_a_proof_that_is_altered_proves_less(
    pipeline: cfopt.Pipeline, alter: Callable[[ScenarioProof], ScenarioProof]
) -> None:
    x0 = torch.randn(3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    given = (x0, pipeline, cfopt.Epsilon(1.0))
    ball = cfopt.Ball(RADIUS)
    honest = cfopt.explain(*given, robust=ball, search=cfopt.Enumeration())
    altered = cfopt.explain(*given, robust=ball, search=Altered(alter))
    assert torch.equal(honest.x, altered.x)
    assert (altered.bound <= honest.bound * (1 + 1e-9)).all()
    assert honest.optimal.all()
    assert not altered.optimal.all()


def test_under_two_predictors_another_decision_may_be_enough_in_each(
    pipeline: cfopt.Pipeline,
) -> None:
    x0 = torch.randn(12, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = random_linear(2, pipeline.problem.num_costs, seed=9, bias=0.4)
    nearest_of_all_choices(pipeline, cfopt.Pipeline(other, pipeline.problem), x0)


def nearest_of_all_choices(
    first: cfopt.Pipeline, second: cfopt.Pipeline, x0: torch.Tensor
) -> cfopt.Explanation:
    """What is asked of two predictors, compared with each choice of a decision for either."""
    e = cfopt.explain(x0, first, cfopt.Epsilon(0.5), robust=cfopt.Models([second.predictor]))
    for row in range(len(x0)):
        best = np.inf
        parts = []
        for one in (first, second):
            weight, bias = affine(one)
            factual = e.factual[row].numpy()
            pairs = np.stack(unexplained(one, factual, 0.5), axis=1)  # (D, 2, m)
            pairs = pairs[(pairs[:, 0] != 0.5 * factual).any(axis=1)]  # another than the factual
            parts.append((pairs @ weight, -pairs @ (weight @ x0[row].numpy() + bias)))
        (g, h), (other_g, other_h) = parts
        for i in range(len(g)):
            for j in range(len(other_g)):
                found = nearest_with_few_rows(
                    np.vstack([g[i], other_g[j]]), np.append(h[i], other_h[j])
                )
                best = min(best, found)
        if e.status[row] is cfopt.Status.PROVED_INFEASIBLE:
            assert best == np.inf
        else:
            assert e.optimal[row]
            assert float(e.loss[row]) == pytest.approx(best, rel=1e-5, abs=1e-12)
    return e


def linear(weight: list[list[int]], bias: list[int]) -> torch.nn.Linear:
    layer = torch.nn.Linear(len(weight[0]), len(bias)).double()
    layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return layer


@pytest.mark.parametrize(
    "models",
    [
        (([[-1, -2], [0, -2]], [1, 3]), ([[1, 2], [2, 2]], [1, 2])),
        (([[0, 0], [1, 2], [-2, -2]], [3, 3, 1]), ([[-1, 2], [0, -1], [2, -1]], [2, 2, 2])),
        (([[0, 0], [1, 0], [2, 1]], [1, 1, 2]), ([[2, -2], [1, 1], [1, 2]], [1, 2, 3])),
    ],
)
def test_where_prices_vanish_at_the_answer_no_choice_is_asked_for_twice(models: Any) -> None:
    plans = Finite(torch.eye(len(models[0][1])))
    first, second = (cfopt.Pipeline(linear(*one), plans) for one in models)
    e = nearest_of_all_choices(first, second, torch.zeros(1, 2).double())
    assert e.steps[0] <= 20


def test_a_long_chain_of_cases_is_checked_like_a_short_one(pipeline: cfopt.Pipeline) -> None:
    x0 = torch.randn(3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    given, ball = (x0, pipeline, cfopt.Epsilon(1.0)), cfopt.Ball(RADIUS)
    length = sys.getrecursionlimit() + 100

    def lengthened(proof: ScenarioProof) -> ScenarioProof:
        """The same scenario asked again and again, and nothing proved in the end."""
        if not isinstance(asked := proof.part, Asked) or not asked.further:
            return proof
        assert isinstance(asked.before.tree, Leaf)
        own, k = asked.before.tree.multipliers, next(iter(asked.further))
        part: Part = replace(asked.before, tree=Leaf(np.zeros(len(own) + length)))
        for depth in reversed(range(length)):
            before = replace(asked.before, tree=Leaf(np.append(own, np.zeros(depth))))
            part = Asked(before, asked.scenario, {k: part})
        return replace(proof, part=part)

    honest = cfopt.explain(*given, robust=ball, search=cfopt.Enumeration())
    longer = cfopt.explain(*given, robust=ball, search=Altered(lengthened))
    assert torch.equal(honest.x, longer.x)
    assert (longer.bound <= honest.bound * (1 + 1e-9)).all()
    assert not longer.optimal.all()


def test_what_two_half_spaces_cost_is_what_the_nearest_point_of_both_costs() -> None:
    rng, exact = np.random.default_rng(0), np.zeros(2)
    box = System.box(np.full(3, -np.inf), np.full(3, np.inf))
    other, normals = rng.standard_normal(3), rng.standard_normal((40, 3))
    excess, kinds = rng.standard_normal(40), set()
    for missed in (-0.3, 0.7):
        costs = Euclidean().to_each_and(other, missed, excess, normals)
        for cost, one, normal in zip(costs, excess, normals, strict=True):
            master = Master(box, Euclidean())
            limits = np.array([-one, -missed])
            master.add(HalfSpaces(np.stack([normal, other]), limits, exact, exact, exact))
            assert cost == pytest.approx(master.solve().bound, rel=1e-6, abs=1e-9)
            alone = max(one, 0.0) ** 2 / (normal @ normal), max(missed, 0.0) ** 2 / (other @ other)
            kinds.add(cost > max(alone) + 1e-9)
    assert kinds == {True, False}


def test_rows_of_a_batch_have_the_answers_and_proofs_that_they_have_alone(
    pipeline: cfopt.Pipeline,
) -> None:
    x0 = torch.randn(27, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    ask = {"criterion": cfopt.Epsilon(1.0), "robust": cfopt.Ball(RADIUS)}
    every = cfopt.explain(x0, pipeline, **ask)
    for row in range(0, 27, 3):
        alone = cfopt.explain(x0[row : row + 1], pipeline, **ask)
        assert torch.allclose(every.x[row], alone.x[0], rtol=1e-9)
        assert torch.allclose(every.bound[row], alone.bound[0], rtol=1e-9, equal_nan=True)
    assert every.optimal.all()
