"""Tangents: projections on the linearised criterion, for contexts with many features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from tests.pipelines import normal, random_linear
from torch import nn

import cfopt
from cfopt.problems import Finite, GridShortestPath
from cfopt.search import Refined
from cfopt.search.dual_step import nearest_by_dual
from cfopt.search.recorded import Recorded
from cfopt.search.tangent_planes import TangentPlanes
from cfopt.search.trust_region.evaluator import Evaluator, in_order
from cfopt.testing import SearchContract

#: More than the sequential search takes.
MANY = 3000


class TestTangents(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.Tangents()


@pytest.mark.parametrize("seed", range(6))
def test_a_step_is_the_solution_of_its_quadratic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounded = seed % 2 == 1
    normals = rng.normal(size=(3, 8))
    limits = -rng.uniform(0.2, 1.0, len(normals))
    weight = rng.uniform(0.5, 2.0, 8)
    found = nearest_by_dual(normals, limits, np.full(8, -np.inf), np.full(8, np.inf), weight).u
    size = 0.85 * np.abs(found).max()
    if bounded:
        found = nearest_by_dual(normals, limits, np.full(8, -size), np.full(8, size), weight).u
    expected = minimize(
        lambda u: float((u * u / weight).sum()),
        np.zeros(8),
        jac=lambda u: 2 * u / weight,
        method="SLSQP",
        bounds=[(-size, size)] * 8 if bounded else None,
        constraints={
            "type": "ineq",
            "fun": lambda u: limits - normals @ u,
            "jac": lambda u: -normals,
        },
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert expected.success
    assert (normals @ found <= limits + 1e-7).all()
    assert np.allclose(found, expected.x, atol=1e-5)
    assert not bounded or (np.abs(found) == size).any()


def _affine() -> tuple[nn.Linear, cfopt.Pipeline, torch.Tensor, torch.Tensor]:
    """Many features, and a predictor that is affine without saying so; contexts and plans."""
    problem = GridShortestPath(3, 3)
    layer = random_linear(MANY, problem.num_costs)
    with torch.no_grad():
        layer.weight.mul_(MANY**-0.5)
        layer.bias.fill_(5.0)
    pipeline = cfopt.Pipeline(lambda x: layer(x), problem)
    x0 = normal(6, MANY)
    listed = problem.decisions()
    assert listed is not None
    factual = pipeline.decide(x0)
    wanted = [
        next(y for y in listed.to(x0).roll(-k, 0) if (y != own).any())
        for k, own in enumerate(factual)
    ]
    return layer, pipeline, x0, torch.stack(wanted)


def test_a_relative_answer_is_the_projection_on_the_half_space() -> None:
    layer, pipeline, x0, wanted = _affine()
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted))
    assert set(e.method) == {"tangents"}
    direction = wanted - e.factual
    excess = (layer(x0).detach() * direction).sum(1)
    expected = excess / (direction @ layer.weight.detach()).norm(dim=1)
    assert torch.allclose(e.distance, expected, rtol=1e-4)


def test_an_absolute_answer_is_the_proven_optimum() -> None:
    layer, pipeline, x0, wanted = _affine()
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
    assert set(e.method) == {"tangents"}
    proven = cfopt.explain(x0, cfopt.Pipeline(layer, pipeline.problem), cfopt.Absolute(wanted))
    assert proven.optimal.all()
    assert torch.allclose(e.distance, proven.distance, rtol=1e-3)


def test_an_epsilon_answer_is_the_nearest_facet_of_all_decisions() -> None:
    layer, pipeline, x0, _ = _affine()
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.1))
    assert set(e.method) == {"tangents"}
    listed = pipeline.problem.decisions()
    assert listed is not None
    for row, own in enumerate(e.factual):
        directions = 1.1 * listed.to(own) - own
        excess = directions @ layer(x0[row]).detach()
        nearest = (excess / (directions @ layer.weight.detach()).norm(dim=1)).min()
        assert e.distance[row].item() == pytest.approx(nearest.item(), rel=1e-3)


def test_bounds_are_kept_and_the_answer_is_the_nearest_within_them() -> None:
    layer, pipeline, x0, wanted = _affine()
    room = 0.02
    features = cfopt.Features(
        lower=(x0.min(0).values - room).tolist(), upper=(x0.max(0).values + room).tolist()
    )
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), features=features)
    assert set(e.method) == {"tangents"}
    free = cfopt.explain(x0, pipeline, cfopt.Relative(wanted))
    assert e.valid.all()
    assert (e.loss > free.loss * 1.001).any()  # so the bounds matter
    for row in range(len(x0)):
        g = ((wanted - e.factual)[row] @ layer.weight).detach().numpy()
        c = float((layer(x0[row]).detach() * (wanted - e.factual)[row]).sum())
        low = x0.min(0).values.numpy() - room - x0[row].numpy()
        high = x0.max(0).values.numpy() + room - x0[row].numpy()
        # The nearest point is clip(-t g): find t by halving.
        near, far = 0.0, 1e6
        for _ in range(200):
            t = (near + far) / 2
            near, far = (near, t) if c + g @ np.clip(-t * g, low, high) <= 0 else (t, far)
        expected = np.square(np.clip(-far * g, low, high)).sum()
        assert e.loss[row].item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_with_one_hidden_layer_it_ends_where_a_fine_grid_does(kind: str) -> None:
    """Costs depend on two directions among many features, so the nearest change lies in these."""
    basis = torch.linalg.qr(normal(MANY, 2, seed=1)).Q.T
    hidden = nn.Sequential(random_linear(2, 12, seed=2, bias=0.3), nn.Tanh())
    head = random_linear(12, 5, seed=3, bias=8.0)

    def small(z: torch.Tensor) -> torch.Tensor:
        return head(hidden(z))

    pipeline = cfopt.Pipeline(lambda x: small(x @ basis.T), Finite(torch.eye(5)))
    x0 = normal(6, MANY, seed=4)
    with torch.no_grad():
        ranks = small(x0 @ basis.T).argsort(1)
    wanted = torch.eye(5, dtype=torch.float64)[ranks[:, 1]]
    criterion = cfopt.Relative(wanted) if kind == "relative" else cfopt.Absolute(wanted)
    e = cfopt.explain(x0, pipeline, criterion)
    side = torch.linspace(-3.0, 3.0, 601, dtype=torch.float64)
    moves = torch.cartesian_prod(side, side)
    spacing = float(side[1] - side[0])
    possible, reached = 0, 0
    for row in range(len(x0)):
        with torch.no_grad():
            costs = small(x0[row] @ basis.T + moves)
        best, own = costs.min(1).values, costs[:, ranks[row, 0]]
        valid = costs[:, ranks[row, 1]] <= (own if kind == "relative" else best)
        if not valid.any():
            continue
        possible += 1
        expected = moves[valid].norm(dim=1).min().item()
        assert e.valid[row]
        assert e.distance[row].item() >= expected - 2 * spacing
        reached += e.distance[row].item() <= 1.02 * expected
    assert possible >= 4
    assert reached >= possible - 1  # it goes to the nearest optimum that it meets


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_on_a_kink_it_ends_at_the_nearest_point(kind: str) -> None:
    """Offer 1 is the cheapest where two features are at least 1: a corner with two slopes."""
    x0 = torch.zeros(4, MANY, dtype=torch.float64)
    x0[:, :2] = 0.5 * normal(4, 2, seed=5).clamp(-1, 1)

    def costs(x: torch.Tensor) -> torch.Tensor:
        own = 6.0 - x[:, :2].min(dim=1).values
        return torch.stack([torch.full_like(own, 5.0), own], dim=1)

    pipeline = cfopt.Pipeline(costs, Finite(torch.eye(2)))
    wish = {"relative": cfopt.Relative, "absolute": cfopt.Absolute}[kind]([0.0, 1.0])
    e = cfopt.explain(x0, pipeline, wish, search=cfopt.Tangents())
    assert e.valid.all()
    assert torch.allclose(e.distance, (1 - x0[:, :2]).norm(dim=1), rtol=5e-3)


@pytest.fixture(scope="module")
def maps() -> tuple[cfopt.Pipeline, torch.Tensor, torch.Tensor]:
    """The shipped maps, with the best paths of others."""
    t = cfopt.load_terrain(157)
    return t.pipeline, t.maps[5:7], t.pipeline.decide(t.maps[155:157])


def test_shipped_maps_have_epsilon_answers_within_their_bounds(maps) -> None:
    pipeline, x0, _ = maps
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.1), features=cfopt.Features(lower=0, upper=1))
    assert e.valid.all()
    assert ((e.x >= 0) & (e.x <= 1)).all()
    costs = pipeline.costs(e.x).detach().double()
    best = (costs * pipeline.decide(e.x)).sum(1)
    assert (1.1 * best <= (costs * e.factual).sum(1) * (1 + 1e-5)).all()
    assert (e.distance < 1.0).all()  # MDMM ends beyond this, without an answer
    # A step takes a forward pass and the slopes of the planes that are about as near as the next
    # one, not of all that are known.
    assert (e.passes <= 5 * e.steps).all()


def test_a_relative_answer_is_no_farther_than_an_absolute_one_or_one_of_mdmm(maps) -> None:
    pipeline, x0, wanted = maps
    relative = cfopt.explain(x0, pipeline, cfopt.Relative(wanted))
    absolute = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
    assert relative.valid.all()
    assert absolute.valid.all()
    assert (relative.distance <= absolute.distance * (1 + 1e-3)).all()
    patient = cfopt.MDMM(patience=100, counting="all steps", max_steps=400)
    theirs = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), search=patient)
    assert (relative.distance <= 1.001 * theirs.distance)[theirs.valid].all()


def test_an_absolute_answer_is_no_farther_than_one_of_mdmm(maps) -> None:
    pipeline, x0, wanted = maps
    box = cfopt.Features(lower=0, upper=1)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.Tangents(), features=box)
    theirs = cfopt.explain(
        x0, pipeline, cfopt.Absolute(wanted), search=cfopt.MDMM(max_steps=600), features=box
    )
    assert theirs.valid.all()
    assert e.valid.all()
    assert ((e.x >= 0) & (e.x <= 1)).all()
    assert (e.distance <= 1.001 * theirs.distance).all()


def test_what_mdmm_finds_on_a_map_is_brought_nearer(maps) -> None:
    pipeline, x0, wanted = maps
    rough = cfopt.MDMM(max_steps=400)
    criterion = cfopt.Relative(wanted)
    plain = cfopt.explain(x0, pipeline, criterion, search=rough)
    fine = cfopt.explain(x0, pipeline, criterion, search=Refined(rough, cfopt.Tangents()))
    assert torch.equal(plain.valid, fine.valid)
    assert (fine.distance <= plain.distance).all()
    assert (fine.distance < 0.9 * plain.distance)[plain.valid].any()


def test_where_the_costs_do_not_depend_on_the_context_it_ends_without_an_answer() -> None:
    pipeline = cfopt.Pipeline(
        lambda x: 0.0 * x[:, :3] + torch.tensor([1.0, 2.0, 3.0]).to(x), Finite(torch.eye(3))
    )
    e = cfopt.explain(
        normal(2, 4), pipeline, cfopt.Absolute([0.0, 1.0, 0.0]), search=cfopt.Tangents()
    )
    assert set(e.status) == {"best effort"}
    assert (e.steps < cfopt.Tangents().max_steps).all()


def test_slopes_where_a_context_was_judged_need_no_other_forward_pass() -> None:
    """And are those of a pass of their own; of contexts that were not judged there are none."""
    calls: list[int] = []

    class Counted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return torch.stack([x[:, 0] ** 2, (x[:, 0] * x[:, 1]).tanh()], 1)

    recorded, x = Recorded(Counted()), normal(5, 2)
    with torch.no_grad():
        costs = recorded(x)
    assert not costs.requires_grad
    some = torch.tensor([1, 3, 4])
    found = recorded.graph(x[some])
    assert found is not None
    leaf, graph, which = found
    assert torch.equal(which, some)
    (slope,) = torch.autograd.grad(graph[which].sum(), leaf)
    assert calls == [5]
    own = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(Counted()(own).sum(), own)
    assert torch.allclose(slope[some], expected[some])
    assert not slope[[0, 2]].any()
    assert recorded.graph(x[some] + 1) is None
    assert recorded.graph(x[[3, 1]]) is None


def _planes() -> tuple[nn.Module, TangentPlanes, Evaluator]:
    """A small curved predictor, and three planes at the contexts of six rows."""
    predictor = nn.Sequential(random_linear(4, 8), nn.Tanh(), random_linear(8, 3, seed=1)).double()
    pipeline, x0 = cfopt.Pipeline(predictor, Finite(np.eye(3))), normal(6, 4, seed=2)
    factual = pipeline.decide(x0)
    criterion = cfopt.Absolute(factual.roll(1, 1)).bind(len(x0), factual)
    rules = cfopt.Rules(pipeline.problem, factual, criterion)
    recorded = Recorded(predictor)
    evaluator = Evaluator(cfopt.Task(rules, cfopt.Space(x0, cfopt.L2()), recorded), np.ones(6))
    planes = TangentPlanes(evaluator, 4, recorded)
    for plan in torch.eye(3, dtype=torch.float64):
        planes.add(np.arange(6), plan.expand(6, -1))
    planes.take(np.arange(6), planes.known, np.ones(6))
    return predictor, planes, evaluator


def _slope(
    predictor: nn.Module, x: torch.Tensor, evaluator: Evaluator, row: int, plan: np.ndarray
) -> np.ndarray:
    """That of `<costs, alternative - plan>` by the context, in the unit of its row."""
    direction = evaluator.task.rules.criterion.alternative[row] - torch.from_numpy(plan)
    jacobian = torch.func.jacrev(predictor)(x).detach()
    return (direction @ jacobian).numpy() / evaluator.unit[row]


@pytest.mark.parametrize("binding", [[1], [0, 1], [0, 2], [0, 1, 2]])
def test_planes_that_bind_are_turned_until_their_sum_has_the_slope_at_the_point(binding) -> None:
    predictor, planes, evaluator = _planes()
    rows, share = np.array([1, 3, 4]), np.array([1.0, 0.25, 0.5])
    weight = np.array([0.5, 2.0, 1.0])[: len(binding)]
    for row in rows:
        planes.bind(row, np.array(binding), weight)
    u = planes.u[rows] + 0.5
    x = evaluator.points(rows, u)
    planes.move(rows, u, x, evaluator.look_at(rows, x).prices)
    before, plans = planes.slope.copy(), planes._decisions.numpy()
    planes.blend(rows, share)
    change = planes.slope - before
    assert np.abs(change).max() > 1e-3
    own = weight / np.linalg.norm(weight)
    for row, part, context in zip(rows, share, x, strict=True):
        here = sum(
            w * _slope(predictor, context, evaluator, row, plans[row, k])
            for w, k in zip(own, binding, strict=True)
        )
        missing = here - own @ before[row, binding]
        assert np.allclose(change[row, binding], part * own[:, None] * missing)
        change[row, binding] = 0.0
    assert not change.any()


def test_slopes_are_averaged_with_those_at_the_point() -> None:
    predictor, planes, evaluator = _planes()
    rows, wanted = np.array([0, 2, 5]), np.zeros((3, 4), dtype=bool)
    wanted[:, 1], wanted[1, 2] = True, True
    u = planes.u[rows] - 0.4
    x = evaluator.points(rows, u)
    planes.move(rows, u, x, evaluator.look_at(rows, x).prices)
    before, plans = planes.slope.copy(), planes._decisions.numpy()
    planes.take(rows, wanted, np.array([1.0, 0.5, 0.25]))
    for row, part, context, which in zip(rows, [1.0, 0.5, 0.25], x, wanted, strict=True):
        for k in range(3):
            here = _slope(predictor, context, evaluator, row, plans[row, k])
            expected = (1 - part) * before[row, k] + part * here if which[k] else before[row, k]
            assert np.allclose(planes.slope[row, k], expected)


def test_rules_of_rows_are_those_of_these_rows_whatever_was_asked_before() -> None:
    evaluator = _planes()[-1]
    choices = [[0], [1], [0, 1], [1, 0], [2, 2, 4], [3], [5, 3], [0], [1, 0], [0, 1]]
    for chosen in map(np.array, choices):
        assert torch.equal(evaluator.rules(chosen).factual, evaluator.task.rules.factual[chosen])


@pytest.mark.parametrize("chosen", [[], [3], [1, 2, 3], [1, 3], [3, 2, 1], [1, 1, 3], [0, 2, 2]])
def test_places_as_a_slice_are_the_same_places(chosen) -> None:
    values, places = np.arange(5.0) ** 2, np.array(chosen, dtype=int)
    assert values[in_order(places)].tolist() == values[places].tolist()
    assert isinstance(in_order(places), slice) == (chosen in ([], [3], [1, 2, 3]))


@pytest.mark.parametrize("seed", range(4))
def test_the_least_largest_change_behind_a_network_is_about_that_of_a_fine_grid(seed) -> None:
    rng = np.random.default_rng(seed)
    first, second = nn.Linear(2, 4).double(), nn.Linear(4, 3).double()
    with torch.no_grad():
        for layer in (first, second):
            layer.weight.copy_(torch.from_numpy(rng.normal(size=layer.weight.shape)))
            layer.bias.copy_(torch.from_numpy(rng.normal(size=layer.bias.shape)))
    pipeline = cfopt.Pipeline(nn.Sequential(first, nn.ReLU(), second), Finite(np.eye(3)))
    x0 = torch.from_numpy(rng.normal(size=(3, 2)))
    wanted = (pipeline.decide(x0).argmax(1) + 1) % 3

    axis = torch.linspace(-3, 3, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    best = pipeline.decide(grid).argmax(1)
    changes = (grid - x0[:, None]).abs().amax(2).masked_fill(best != wanted[:, None], torch.inf)
    least = changes.amin(1)

    e = cfopt.explain(
        x0,
        pipeline,
        cfopt.Absolute(torch.eye(3).double()[wanted]),
        proximity=cfopt.LInf(),
        features=cfopt.Features(lower=-3, upper=3),
    )
    assert (e.valid | least.isinf()).all()
    assert (e.loss <= 1.05 * least)[e.valid].all()
