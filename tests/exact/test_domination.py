"""Plans that can never be best where costs are above 0, against lists of all decisions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from tests.pipelines import normal, random_linear
from torch import nn

import cfopt
from cfopt.exact.certificate import Cut
from cfopt.exact.domination import DominationProof, dominations
from cfopt.exact.positive import is_positive
from cfopt.exact.verify import recheck, verify
from cfopt.predictors.cnn import CompactCNN
from cfopt.problems import Finite, Knapsack, TerrainShortestPath
from cfopt.question.quantifier import Quantifier
from cfopt.search import MDMM, Auto

SIZE = 3


def _routes(problem: TerrainShortestPath) -> torch.Tensor:
    """Every route over a map that visits no cell twice, found by walking: `(D, m)`."""
    sources, targets = problem.moves()
    goal = problem.number(problem.goal)
    found, walks = [], [[problem.number(problem.start)]]
    while walks:
        walk = walks.pop()
        if walk[-1] == goal:
            found.append(walk)
            continue
        onwards = targets[sources == walk[-1]]
        walks += [[*walk, int(cell)] for cell in onwards if cell not in walk]
    routes = torch.zeros(len(found), problem.num_costs, dtype=torch.float64)
    for row, walk in enumerate(found):
        routes[row, walk] = 1.0
    return routes.unique(dim=0)


def _task(predictor: nn.Module, problem: cfopt.Problem, criterion, x: torch.Tensor) -> cfopt.Task:
    factual = cfopt.Pipeline(predictor, problem).decide(x)
    rules = cfopt.Rules(problem, factual, criterion.bind(len(x), factual))
    return cfopt.Task(rules, cfopt.Space(x, cfopt.L2()), predictor)


def _positive(features: int, costs: int, seed: int = 0) -> nn.Sequential:
    return nn.Sequential(random_linear(features, costs, seed), nn.Softplus())


@pytest.fixture(scope="module")
def terrain() -> TerrainShortestPath:
    return TerrainShortestPath(SIZE, SIZE)


@pytest.fixture(scope="module")
def routes(terrain: TerrainShortestPath) -> torch.Tensor:
    return _routes(terrain)


def _contains_another(plans: torch.Tensor) -> torch.Tensor:
    """Whether each plan contains another one: `(D, m) -> (D,)`."""
    within = (plans[None] <= plans[:, None]).all(2) & (plans[None] != plans[:, None]).any(2)
    return within.any(1)


def test_just_those_routes_are_dominated_that_contain_another(terrain, routes) -> None:
    x = normal(1, 4).expand(len(routes), -1)
    task = _task(_positive(4, SIZE**2), terrain, cfopt.Absolute(routes), x)
    proofs = dominations(task)
    claimed = torch.tensor([proof is not None for proof in proofs])
    assert 0 < claimed.sum() < len(routes)
    assert torch.equal(claimed, _contains_another(routes))
    assert torch.equal(recheck(task, proofs).bound == torch.inf, claimed)


def test_a_dominated_route_is_never_the_best_and_any_other_one_can_be(terrain, routes) -> None:
    dominated = _contains_another(routes)
    for seed in range(5):
        costs = _positive(4, SIZE**2, seed)(3 * normal(400, 4, seed=seed))
        values = costs @ routes.T
        assert (values[:, dominated] > values.amin(1, keepdim=True)).all()
    best_for = terrain.solve(torch.where(routes > 0, 1.0, 100.0))
    assert torch.equal((best_for == routes).all(1), ~dominated)


def test_a_corner_is_settled_at_once_and_the_other_rows_are_searched(terrain, routes) -> None:
    pipeline = cfopt.Pipeline(_positive(4, SIZE**2), terrain)
    x0 = normal(1, 4)
    factual = pipeline.decide(x0)
    others = routes[(routes != factual).any(1)]
    dominated = _contains_another(routes)[(routes != factual).any(1)]
    asked = torch.stack([others[dominated][0], others[~dominated][0], others[dominated][1]])
    e = cfopt.explain(x0.expand(3, -1), pipeline, cfopt.Absolute(asked))
    assert [str(e.status[row]) for row in (0, 2)] == ["proved infeasible"] * 2
    assert e.method[0] == e.method[2] == "domination"
    assert e.method[1] != "domination"
    assert str(e.status[1]) != "proved infeasible"
    assert "it does without" in e.message[0]
    assert "since all costs are above 0" in e.message[0]
    assert e.clash[0] is not None
    assert (e.clash[0].decisions[0] <= asked[0].numpy()).all()
    again = cfopt.Explanation.from_json(e.to_json())
    assert again.clash[0] is not None
    assert again.clash[0].why == e.clash[0].why


def test_nothing_is_claimed_where_costs_have_both_signs(terrain, routes) -> None:
    x = normal(1, 4).expand(len(routes), -1)
    linear = random_linear(4, SIZE**2)
    for predictor in (
        linear,
        nn.Sequential(linear, nn.ReLU()),
        nn.Sequential(nn.Softplus(), linear),
    ):
        proofs = dominations(_task(predictor, terrain, cfopt.Absolute(routes), x))
        assert proofs == [None] * len(routes)


def test_with_costs_of_both_signs_a_corner_can_be_the_best(routes) -> None:
    dominated = routes[_contains_another(routes)][0]
    pipeline = cfopt.Pipeline(random_linear(4, SIZE**2), Finite(routes))
    e = cfopt.explain(normal(3, 4), pipeline, cfopt.Absolute(dominated))
    assert "valid" in {str(status) for status in e.status}


def test_relative_is_settled_where_the_decision_is_a_part_of_the_plan(terrain, routes) -> None:
    pipeline = cfopt.Pipeline(_positive(4, SIZE**2), terrain)
    x = normal(1, 4).expand(len(routes), -1)
    factual = pipeline.decide(x)
    part = (factual <= routes).all(1) & (factual != routes).any(1)
    for margin in (0.0, 0.1):
        criterion = cfopt.Relative(routes).bind(len(x), factual)
        rules = cfopt.Rules(terrain, factual, criterion, margin)
        task = cfopt.Task(rules, cfopt.Space(x, cfopt.L2()), pipeline.predictor)
        assert [proof is not None for proof in dominations(task)] == part.tolist()
    assert part.any()


def test_of_values_to_pack_more_is_better() -> None:
    knapsack = Knapsack(np.array([[2.0, 3.0, 4.0, 5.0]]), np.array([8.0]))
    plans = torch.tensor(list(product((0.0, 1.0), repeat=4)), dtype=torch.float64)
    plans = plans[knapsack.is_feasible(plans)]
    x = normal(1, 3).expand(len(plans), -1)
    task = _task(_positive(3, 4), knapsack, cfopt.Absolute(plans), x)
    more = (plans[None] >= plans[:, None]).all(2) & (plans[None] != plans[:, None]).any(2)
    proofs = dominations(task)
    assert [proof is not None for proof in proofs] == more.any(1).tolist()
    e = cfopt.explain(x[:1], cfopt.Pipeline(task.predictor, knapsack), cfopt.Absolute(plans[:1]))
    assert str(e.status[0]) == "proved infeasible"
    assert "is worth more whatever the context" in e.message[0]


def test_a_proof_by_another_decision_or_of_another_predictor_is_not_believed(
    terrain, routes
) -> None:
    corner = routes[_contains_another(routes)][:1]
    task = _task(_positive(4, SIZE**2), terrain, cfopt.Absolute(corner), normal(1, 4))
    (proof,) = dominations(task)
    assert proof is not None
    nowhere = np.zeros(SIZE**2)  # a part of every route, but no way to the goal
    false = DominationProof(Cut(nowhere, Quantifier.EVERY))
    itself = DominationProof(Cut(corner[0].numpy(), Quantifier.EVERY))
    given = DominationProof(Cut(proof.cut.decision, Quantifier.GIVEN))
    for other in (false, itself, given):
        assert not recheck(task, [other]).clashes
    signed = _task(random_linear(4, SIZE**2), terrain, cfopt.Absolute(corner), normal(1, 4))
    assert not recheck(signed, [proof]).clashes


def test_rounding_does_not_make_a_dominated_route_level(terrain, routes) -> None:
    corner = routes[_contains_another(routes)][:1]
    task = _task(nn.Sequential(nn.Softplus()), terrain, cfopt.Absolute(corner), normal(1, SIZE**2))
    (proof,) = dominations(task)
    assert proof is not None
    cheap = torch.where(corner > torch.from_numpy(proof.cut.decision), -40.0, 40.0 * (1 - corner))
    costs = task.predictor(cheap)
    best = (costs @ routes.T).min()
    assert 0 <= (costs * corner).sum() - best < 1e-12 * best  # level, if it were forgiven
    verdict = verify(task, cheap)
    assert not verdict.valid[0]
    assert "to within rounding only" in verdict.failures[0]
    e = cfopt.explain(cheap, task.pipeline, cfopt.Absolute(corner), search=MDMM(max_steps=2))
    assert str(e.status[0]) == "best effort"


def test_among_codes_a_corner_is_settled_as_well(terrain, routes) -> None:
    corner = routes[_contains_another(routes)][0]
    pipeline = cfopt.Pipeline(_positive(4, SIZE**2), terrain)
    model = cfopt.generative.PCA.fit(normal(50, 4, seed=3), 2)
    e = cfopt.explain(
        normal(2, 4), pipeline, cfopt.Absolute(corner), generative=model, search=Auto()
    )
    assert e.method == ("domination",) * 2
    assert {str(status) for status in e.status} == {"proved infeasible"}


def test_positive_costs_are_known_by_structure_or_declared() -> None:
    linear = random_linear(2, 2)
    assert is_positive(nn.Sequential(linear, nn.Softplus(), nn.Flatten()))
    assert is_positive(nn.Sequential(nn.Sequential(linear, nn.Sigmoid())))
    assert is_positive(CompactCNN())
    assert is_positive(cfopt.Positive(torch.exp))
    hooked = nn.Sequential(linear, nn.Softplus())
    hooked[1].register_forward_hook(lambda module, given, costs: -costs)

    class Turned(CompactCNN):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -super().forward(x)

    others = [
        linear,
        hooked,
        Turned(),
        torch.exp,
        nn.Sequential(nn.Flatten()),
        nn.Softplus(beta=-1),
    ]
    assert not any(map(is_positive, others))


def test_a_declared_predictor_is_used_and_refuted_by_the_contexts(terrain, routes) -> None:
    corner = cfopt.Absolute(routes[_contains_another(routes)][0])
    x0 = normal(1, SIZE**2)
    e = cfopt.explain(x0, cfopt.Pipeline(cfopt.Positive(torch.exp), terrain), corner)
    assert e.method == ("domination",)
    with pytest.raises(cfopt.InputError, match="declared to give costs above 0, but"):
        cfopt.explain(x0, cfopt.Pipeline(cfopt.Positive(nn.Identity()), terrain), corner)
    with pytest.raises(cfopt.InputError, match="needs a predictor that can be called"):
        cfopt.Positive(3)
    both = cfopt.Positive(cfopt.Affine(lambda x: x + 10))
    e = cfopt.explain(x0, cfopt.Pipeline(both, terrain), cfopt.Absolute(routes[:1]))
    assert e.optimal.all() or e.method == ("domination",)
