"""How far contexts may be off: against all decisions, and against samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.independent import cuts
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.problems import GridShortestPath, Knapsack, Oracle


@pytest.fixture(scope="module")
def grid() -> cfopt.Pipeline:
    return cfopt.Pipeline(random_linear(6, 24, bias=6.0), GridShortestPath(4, 4))


@pytest.mark.parametrize("kind", [cfopt.Relative, cfopt.Absolute])
def test_radii_of_wishes_are_the_nearest_of_all_decisions(
    grid: cfopt.Pipeline, kind: type[cfopt.Contrastive]
) -> None:
    x0 = normal(15, 6, seed=1)
    e = cfopt.explain(x0, grid, kind(another(grid, x0)), margin=0.05)
    assert e.valid.any()
    assert set(e.radius_kind) <= {"exact", ""}
    listed = grid.problem.decisions().numpy()
    for row in e.valid.nonzero().flatten().tolist():
        rivals = listed if kind is cfopt.Absolute else e.factual[row][None].numpy()
        g, h = cuts(grid, e.x[row].numpy(), e.alternative[row].numpy() - rivals)
        kept = np.abs(g).sum(1) > 1e-12
        least = (h[kept] / np.linalg.norm(g[kept], axis=1)).min()
        assert least > 0
        assert float(e.radius[row]) == pytest.approx(least, rel=1e-6)


def test_radii_of_epsilon_are_the_nearest_contexts_that_fail(grid: cfopt.Pipeline) -> None:
    """Far enough away, where the plan is not as bad, is a polyhedron: no sample of it is nearer."""
    x0 = normal(10, 6, seed=2)
    e = cfopt.explain(x0, grid, cfopt.Epsilon(0.2), robust=cfopt.Ball(0.2))
    assert e.radius_kind == ("exact",) * len(e)
    assert (e.radius >= 0.2 - 1e-6).all()
    draws = normal(300, *e.x.shape, seed=3)
    off = draws / draws.norm(dim=2, keepdim=True)
    for far, share in ((0.999, 0), (1.5, 1)):
        fails = torch.zeros(len(e), dtype=torch.bool)
        for step in off:
            x = e.x + far * e.radius[:, None] * step
            fails |= grid.regret(x, e.factual) < 0.2 - 1e-6
        assert not fails.any() if share == 0 else fails.any()


def test_nearest_answers_have_no_room_and_the_factual_decision_has() -> None:
    pipeline = cfopt.Pipeline(random_linear(4, 12, bias=5.0), GridShortestPath(3, 3))
    x0 = normal(8, 4, seed=4)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(another(pipeline, x0)))
    assert (e.radius[e.valid] <= 1e-6).all()
    own = cfopt.explain(x0, pipeline, cfopt.Absolute(pipeline.decide(x0)))
    assert (own.radius > 0).all()
    assert "in every context within" in own[0].summary()
    again = cfopt.Explanation.from_json(own.to_json())
    assert torch.allclose(again.radius, own.radius)
    assert again.radius_kind == own.radius_kind
    assert own.to_dataframe()["radius kind"].tolist() == ["exact"] * 8


def test_without_a_list_the_radius_is_a_lower_bound() -> None:
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
    x0 = normal(12, 3, seed=5)
    criterion = cfopt.Absolute(listed.decide(x0))
    exact = cfopt.explain(x0, listed, criterion)
    bound = cfopt.explain(x0, bare, criterion)
    assert set(bound.radius_kind) == {"at least"}
    assert (bound.radius <= exact.radius * (1 + 1e-9)).all()
    assert (bound.radius > 0.2 * exact.radius).all()


def test_behind_a_network_the_radius_is_the_distance_of_an_exception() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12)
    ).double()
    with torch.no_grad():
        network[-1].bias += 2
    for predictor in (network, lambda x: network(torch.as_tensor(x)).detach().numpy()):
        pipeline = cfopt.Pipeline(predictor, GridShortestPath(3, 3))
        x0 = normal(6, 4, seed=6)
        e = cfopt.explain(x0, pipeline, cfopt.Absolute(pipeline.decide(x0)))
        assert set(e.radius_kind) <= {"at most", ""}
        known = ~e.radius.isnan()
        assert known.any()
        row = known.nonzero()[0]
        alone = cfopt.explain(x0[row], pipeline, cfopt.Absolute(pipeline.decide(x0[row])))
        assert torch.allclose(alone.radius, e.radius[row], rtol=0.2)
        # No better than it says: sampled contexts that fail are hardly ever nearer.
        draws = normal(300, *x0.shape, seed=7)
        off = draws / draws.norm(dim=2, keepdim=True)
        nearer = torch.zeros(len(e), dtype=torch.bool)
        for step in off:
            x = x0 + 0.9 * e.radius.nan_to_num(0.0)[:, None] * step
            nearer |= pipeline.regret(x, e.alternative) > 1e-6
        if predictor is network:
            assert not nearer[known].any()


def test_rows_without_an_answer_have_no_radius(grid: cfopt.Pipeline) -> None:
    x0 = normal(2, 6, seed=8)
    x0[1] = torch.nan
    e = cfopt.explain(x0, grid, cfopt.Epsilon(0.1))
    assert e.radius[1].isnan()
    assert e.radius_kind[1] == ""
