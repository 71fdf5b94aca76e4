"""Answers that stand up to contexts that are off, and to other models."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import scipy.optimize
import torch
from benchmarks.independent import cuts, is_feasible, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.datasets import synthetic
from cfopt.problems import MILP, GridShortestPath, Knapsack, Oracle

#: The dual of each norm, and random places on its sphere: `(S, p)`.
NORMS: dict[str, tuple[cfopt.Proximity, Callable[[np.ndarray], np.ndarray]]] = {
    "L2": (cfopt.L2(), lambda g: np.linalg.norm(g, axis=1)),
    "L1": (cfopt.L1(), lambda g: np.abs(g).max(axis=1)),
    "LInf": (cfopt.LInf(), lambda g: np.abs(g).sum(axis=1)),
}
ORDERS = {"L2": 2, "L1": 1, "LInf": np.inf}


@pytest.fixture(scope="module")
def grid() -> cfopt.Pipeline:
    problem = GridShortestPath(4, 4)
    return cfopt.Pipeline(random_linear(6, problem.num_costs, bias=6.0), problem)


@pytest.fixture(scope="module")
def knapsack() -> cfopt.Pipeline:
    data = synthetic.knapsack(20, 4, 8, seed=3)
    return cfopt.Pipeline(random_linear(4, 8, seed=2, bias=3.0), data.problem)


def around(x: torch.Tensor, radius: float, name: str, count: int = 300) -> torch.Tensor:
    """Contexts on the sphere of a norm, corners among them: `(B, p) -> (S, B, p)`."""
    draws = np.random.default_rng(1).standard_normal((count, *x.shape))
    draws[: count // 4] = np.sign(draws[: count // 4])
    draws[count // 4 : count // 2] *= np.random.default_rng(2).random((count // 4, *x.shape)) < 0.2
    length = np.linalg.norm(draws, axis=2, ord=ORDERS[name], keepdims=True)
    return x + torch.from_numpy(radius * draws / np.maximum(length, 1e-12))


def holds_at(pipeline: cfopt.Pipeline, e: cfopt.Explanation, x: torch.Tensor) -> torch.Tensor:
    """Whether the criterion holds in other contexts of the rows, by a fresh solve."""
    costs = pipeline.problem.sense.sign * pipeline.costs(x)
    best = (costs * pipeline.decide(x)).sum(1)
    factual, wanted = ((costs * y).sum(1) for y in (e.factual, e.alternative))
    slack = 1e-6 * costs.abs().sum(1)
    if isinstance(e.criterion, cfopt.Relative):
        return wanted <= factual + slack
    if isinstance(e.criterion, cfopt.Absolute):
        return wanted <= best + slack
    return best + e.criterion.epsilon * best.abs() <= factual + slack


def stands(pipeline: cfopt.Pipeline, e: cfopt.Explanation, radius: float, name: str) -> bool:
    """Whether no sampled context refutes an answer."""
    found = e[e.answered]
    return all(bool(holds_at(pipeline, found, x).all()) for x in around(found.x, radius, name))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("which", ["grid", "knapsack"])
def test_absolute_balls_are_the_shifted_half_spaces_of_all_decisions(
    which: str, name: str, request: pytest.FixtureRequest
) -> None:
    pipeline: cfopt.Pipeline = request.getfixturevalue(which)
    norm, dual = NORMS[name]
    x0 = normal(20, pipeline.predictor.in_features, seed=5)
    wanted = another(pipeline, x0)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), robust=cfopt.Ball(0.15, norm))
    listed = pipeline.problem.decisions().numpy()
    for row in range(len(x0)):
        g, h = cuts(pipeline, x0[row].numpy(), wanted[row].numpy() - listed)
        kept = np.abs(g).sum(1) > 1e-12
        g, h = g[kept], h[kept] - 0.15 * dual(g[kept])
        if e.status[row] == "proved infeasible":
            assert not is_feasible(g, h)
        else:
            assert e.optimal[row]
            assert float(e.loss[row]) == pytest.approx(nearest_l2(g, h), rel=1e-6)
    assert stands(pipeline, e, 0.15, name)
    assert not stands(pipeline, e, 0.2, name)  # the samples can tell


@pytest.mark.parametrize("name", ["L2", "L1"])
def test_a_ball_moves_relative_answers_by_its_radius(grid: cfopt.Pipeline, name: str) -> None:
    norm, power = NORMS[name][0], {"L2": 2, "L1": 1}[name]
    x0 = normal(20, 6, seed=6)
    criterion = cfopt.Relative(another(grid, x0))
    plain = cfopt.explain(x0, grid, criterion, proximity=norm)
    e = cfopt.explain(x0, grid, criterion, proximity=norm, robust=cfopt.Ball(0.3, norm))
    assert e.optimal.all()
    length = plain.loss ** (1 / power) + 0.3
    assert torch.allclose(e.loss ** (1 / power), length, rtol=1e-6)
    assert stands(grid, e, 0.3, name)


@pytest.mark.parametrize("which", ["grid", "knapsack"])
def test_a_ball_moves_epsilon_answers_by_its_radius_where_all_may_change(
    which: str, request: pytest.FixtureRequest
) -> None:
    pipeline: cfopt.Pipeline = request.getfixturevalue(which)
    x0 = normal(20, pipeline.predictor.in_features, seed=7)
    plain = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.2))
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.2), robust=cfopt.Ball(0.25))
    found = plain.steps > 0
    assert e.optimal[found].all()
    assert torch.allclose(e.loss[found].sqrt(), plain.loss[found].sqrt() + 0.25, rtol=1e-6)
    assert stands(pipeline, e, 0.25, "L2")


def test_epsilon_balls_under_limits_stand_and_are_no_nearer_than_their_bound(
    grid: cfopt.Pipeline,
) -> None:
    x0 = normal(20, 6, seed=8).clamp(-1, 1)
    features = cfopt.Features(lower=-1.5, upper=1.5, immutable=[0])
    ball = cfopt.Ball(0.2)
    plain = cfopt.explain(x0, grid, cfopt.Epsilon(0.2), features=features)
    e = cfopt.explain(x0, grid, cfopt.Epsilon(0.2), features=features, robust=ball)
    assert e.valid.sum() >= 10
    assert stands(grid, e, 0.2, "L2")
    found = e.valid & (plain.steps > 0)
    assert (e.bound <= e.loss + 1e-9)[found].all()
    assert (e.bound >= plain.bound - 1e-9)[found].all()


def test_answers_hold_under_every_model_and_are_the_nearest_that_do(grid: cfopt.Pipeline) -> None:
    others = [deepcopy(grid.predictor) for _ in range(3)]
    for seed, other in enumerate(others):
        with torch.no_grad():
            other.weight += 0.1 * normal(*other.weight.shape, seed=seed)
    x0 = normal(20, 6, seed=9)
    wanted = another(grid, x0)
    models = cfopt.Models(others)
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), robust=[models, cfopt.Ball(0.1)])
    listed = grid.problem.decisions().numpy()
    pipelines = [cfopt.Pipeline(one, grid.problem) for one in (grid.predictor, *others)]
    for row in range(len(x0)):
        parts = []
        for one in pipelines:
            g, h = cuts(one, x0[row].numpy(), wanted[row].numpy() - listed)
            kept = np.abs(g).sum(1) > 1e-12
            parts.append((g[kept], (h - 0.1 * np.linalg.norm(g, axis=1))[kept]))
        g, h = (np.concatenate(part) for part in zip(*parts, strict=True))
        if e.status[row] == "proved infeasible":
            assert not is_feasible(g, h)
        else:
            assert e.optimal[row]
            assert float(e.loss[row]) == pytest.approx(nearest_l2(g, h), rel=1e-6)
    assert all(stands(one, e, 0.1, "L2") for one in pipelines)
    assert e.asked.robust is not None
    assert not e.asked.robust.predictors  # models are not kept


def test_a_margin_holds_in_the_whole_ball(knapsack: cfopt.Pipeline) -> None:
    x0 = normal(20, 4, seed=10)
    criterion = cfopt.Absolute(another(knapsack, x0))
    e = cfopt.explain(x0, knapsack, criterion, margin=0.05, robust=cfopt.Ball(0.1))
    assert e.optimal[e.valid].all()
    assert e.valid.any()
    found = e[e.valid]
    for x in around(found.x, 0.1, "L2"):
        costs = -knapsack.costs(x)
        others = knapsack.problem.runner_up(knapsack.costs(x), found.alternative).decisions
        own, rival = ((costs * y).sum(1) for y in (found.alternative, others))
        assert (own + 0.05 * own.abs() <= rival + 1e-6 * costs.abs().sum(1)).all()


def test_whole_numbers_and_known_features_are_not_off_but_locked_ones_are(
    grid: cfopt.Pipeline,
) -> None:
    x0 = normal(10, 6, seed=11)
    x0[:, 0] = x0[:, 0].round()
    wanted = another(grid, x0)
    features = cfopt.Features(integer=[0], immutable=[1], lower={0: -9}, upper={0: 9})
    ball = cfopt.Ball(0.2, known=[2])
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), features=features, robust=ball)
    assert e.valid.any()
    found = e[e.valid]
    free = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for x in around(found.x, 0.2, "L2"):
        off = (x - found.x) * free
        there = found.x + 0.2 * off / off.norm(dim=1, keepdim=True).clamp(min=1e-12)
        assert holds_at(grid, found, there).all()
    listed = grid.problem.decisions().numpy()
    for row in e.valid.nonzero().flatten().tolist():
        # For the whole numbers of the answer, the rest is a quadratic program.
        shifted = x0[row].clone()
        shifted[0] = e.x[row, 0]
        g, h = cuts(grid, shifted.numpy(), wanted[row].numpy() - listed)
        kept = np.abs(g).sum(1) > 1e-12
        h = h - 0.2 * np.linalg.norm(g * free.numpy(), axis=1)
        rest = nearest_l2(g[kept][:, 2:], h[kept])
        assert float(e.loss[row]) == pytest.approx(
            rest + float(e.x[row, 0] - x0[row, 0]) ** 2, rel=1e-6
        )


def test_the_largest_change_is_minimised_exactly(grid: cfopt.Pipeline) -> None:
    x0 = normal(20, 6, seed=12)
    wanted = another(grid, x0)
    listed = grid.problem.decisions().numpy()
    for limited in (False, True):
        features = cfopt.Features(lower=-2.5, upper=2.5) if limited else cfopt.Features()
        start = x0.clamp(-2, 2)
        e = cfopt.explain(
            start, grid, cfopt.Absolute(wanted), proximity=cfopt.LInf(), features=features
        )
        for row in range(len(x0)):
            g, h = cuts(grid, start[row].numpy(), wanted[row].numpy() - listed)
            least = _least_largest(g, h, start[row].numpy(), 2.5 if limited else np.inf)
            if e.status[row] == "proved infeasible":
                assert least == np.inf
            else:
                assert e.optimal[row]
                assert float(e.loss[row]) == pytest.approx(least, rel=1e-6)
    relative = cfopt.explain(x0, grid, cfopt.Relative(wanted), proximity=cfopt.LInf())
    assert relative.optimal.all()
    for row in range(len(x0)):
        g, h = cuts(grid, x0[row].numpy(), (wanted - relative.factual)[row][None].numpy())
        least = _least_largest(g, h, x0[row].numpy(), np.inf)
        assert float(relative.loss[row]) == pytest.approx(least, rel=1e-6, abs=1e-9)


def _least_largest(g: np.ndarray, h: np.ndarray, x0: np.ndarray, end: float) -> float:
    """`min max |u|` subject to `g u <= h` and `|x0 + u| <= end`, by scipy's simplex."""
    size = g.shape[1]
    ones = np.ones((size, 1))
    rows = np.block([[g, np.zeros((len(g), 1))], [np.eye(size), -ones], [-np.eye(size), -ones]])
    bounds = [(-end - x, end - x) for x in x0] + [(0, None)]
    found = scipy.optimize.linprog(
        np.append(np.zeros(size), 1.0),
        rows,
        np.concatenate([h, np.zeros(2 * size)]),
        bounds=bounds,
        method="highs",
    )
    return float(found.fun) if found.status == 0 else np.inf


def test_without_a_list_corners_prove_sums_and_others_say_that_they_do_not() -> None:
    small = Knapsack([[3.0, 5.0, 2.0, 4.0, 6.0]], [9.0])
    listed = cfopt.Pipeline(random_linear(3, 5, seed=4, bias=4.0), small)
    solve = Oracle(
        lambda costs: small.optimise(costs[None])[0],
        5,
        sense="max",
        is_feasible=lambda y: not small.faults(y[None])[0],
        binary=True,
    )
    bare = cfopt.Pipeline(listed.predictor, solve)
    x0 = normal(12, 3, seed=13)
    criterion = cfopt.Absolute(another(listed, x0))
    for norm, sure in ((cfopt.L1(), True), (cfopt.L2(), False)):
        ball = cfopt.Ball(0.1, norm)
        e = cfopt.explain(x0, listed, criterion, robust=ball)
        f = cfopt.explain(x0, bare, criterion, robust=ball)
        assert torch.equal(e.valid, f.answered)
        assert torch.allclose(e.loss[e.valid], f.loss[e.valid], rtol=1e-6)
        assert stands(listed, f, 0.1, type(norm).__name__)
        assert f.valid[f.answered].all() if sure else "sampled" in f.status


def test_behind_a_network_worst_cases_are_found_and_nothing_is_called_proved() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12)
    ).double()
    with torch.no_grad():
        network[-1].bias += 2
    pipeline = cfopt.Pipeline(network, GridShortestPath(3, 3))
    x0 = normal(4, 4, seed=14)
    criterion = cfopt.Absolute(another(pipeline, x0))
    plain = cfopt.explain(x0, pipeline, criterion)
    e = cfopt.explain(x0, pipeline, criterion, robust=cfopt.Ball(0.1))
    assert e.answered.sum() >= 2
    assert (e.loss >= plain.loss - 1e-9)[e.answered].all()
    assert not e.valid.any()
    assert all("points, which is no proof" in message for message in e[e.answered].message)
    assert stands(pipeline, e, 0.1, "L2")
    assert not stands(pipeline, e, 0.3, "L2")


def test_functions_without_a_gradient_are_attacked_by_samples() -> None:
    weight = normal(12, 3, seed=15).numpy()
    pipeline = cfopt.Pipeline(lambda x: np.tanh(x @ weight.T) + 3, GridShortestPath(3, 3))
    x0 = normal(2, 3, seed=16)
    e = cfopt.explain(x0, pipeline, cfopt.Relative(another(pipeline, x0)), robust=cfopt.Ball(0.1))
    assert "sampled" in e.status
    assert stands(pipeline, e, 0.1, "L2")


def test_other_models_of_any_kind_are_withstood() -> None:
    torch.manual_seed(1)
    first, second = (
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 12)).double()
        for _ in range(2)
    )
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        for one in (first, second):
            one[-1].bias += 2
        second[0].weight += 0.1
    pipeline = cfopt.Pipeline(first, GridShortestPath(3, 3))
    x0 = normal(4, 4, seed=17)
    e = cfopt.explain(
        x0, pipeline, cfopt.Relative(another(pipeline, x0)), robust=cfopt.Models([second])
    )
    assert e.valid.sum() >= 2
    assert holds_at(cfopt.Pipeline(second, pipeline.problem), e[e.valid], e[e.valid].x).all()


def test_a_context_that_is_off_by_too_much_to_be_valid_is_not_called_valid() -> None:
    """A row that already explains, but not in the whole ball, is searched for."""
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(random_linear(4, 12, seed=6, bias=5.0), problem)
    x0 = normal(10, 4, seed=18)
    own = pipeline.decide(x0)
    plain = cfopt.explain(x0, pipeline, cfopt.Absolute(own))
    assert set(plain.status) == {"already valid"}
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(own), robust=cfopt.Ball(0.5))
    assert "valid" in e.status
    assert e.optimal[e.valid].all()
    assert stands(pipeline, e, 0.5, "L2")


def test_unbounded_problems_are_refused_by_no_ball_wrongly() -> None:
    """A polyhedron without end: the ray of a direction becomes a cut."""
    problem = MILP([[1.0, -1.0]], [-np.inf], [2.0])
    pipeline = cfopt.Pipeline(cfopt.Affine(lambda x: x + 1.0), problem)
    x0 = torch.tensor([[1.0, 0.5], [-0.7, -0.95]], dtype=torch.float64)
    wanted = torch.tensor([2.0, 0.0], dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), robust=cfopt.Ball(0.1))
    # Costs (a, b) with a <= -0.1 and a + b >= 0.1 sqrt(2), both less what the ball takes.
    assert e.status == ("sampled", "sampled")
    assert e.loss.tolist() == pytest.approx(e.bound.tolist())
    nearest = [[-0.1, 1.5], [-0.1, 0.1 + 0.1 * 2**0.5]]
    assert e.costs.numpy() == pytest.approx(np.array(nearest), abs=1e-6)
    # Beyond (3, 1) decisions go on for ever as cheaply at best: in a ball that cannot be.
    between = cfopt.Absolute(torch.tensor([3.0, 1.0], dtype=torch.float64))
    e = cfopt.explain(x0, pipeline, between, robust=cfopt.Ball(0.1))
    assert set(e.status) == {"proved infeasible"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (0.1, "robust needs Ball"),
        ([cfopt.Ball(1), cfopt.Ball(2)], "no more than one Ball"),
    ],
)
def test_what_is_no_robustness_is_refused(
    given: object, complaint: str, grid: cfopt.Pipeline
) -> None:
    with pytest.raises(cfopt.InputError, match=complaint):
        cfopt.explain(normal(1, 6), grid, cfopt.Epsilon(0.1), robust=given)


def test_balls_and_models_check_their_arguments(grid: cfopt.Pipeline) -> None:
    with pytest.raises(cfopt.InputError, match="radius > 0"):
        cfopt.Ball(0)
    with pytest.raises(cfopt.InputError, match="at least one"):
        cfopt.Models([])
    with pytest.raises(cfopt.InputError, match="does not fit"):
        cfopt.explain(
            normal(1, 6),
            grid,
            cfopt.Epsilon(0.1),
            robust=cfopt.Models([random_linear(6, 3)]),
        )
