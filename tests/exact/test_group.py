"""One change for many rows: against every set of rows and every decision at once."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from tests.pipelines import normal

import cfopt
from cfopt._typing import Array
from cfopt.errors import InputError

ROWS = 6


def cheapest(pipeline: cfopt.Pipeline, x0: Array, plans: Array, most: Array) -> float:
    """The least sum of changes after which each row's plan is the best, by one linear program.

    Over every decision of every row; inf if there is none. Features change by at most `most`.
    """
    layer, decisions = pipeline.predictor, pipeline.problem.list_decisions(10_000)
    assert decisions is not None
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()  # type: ignore[attr-defined]
    sign = 1.0 if pipeline.problem.sense == "min" else -1.0
    matrix, limits = [], []
    for x, plan in zip(x0, plans, strict=True):
        costs = sign * (weight @ x + bias)
        for other in decisions:
            matrix.append(sign * ((plan - other) @ weight))
            limits.append(-costs @ (plan - other))
    size = x0.shape[1]
    up = [(0.0, float(one)) for one in (*most, *most)]
    normals = np.array(matrix)
    found = linprog(np.ones(2 * size), np.hstack([normals, -normals]), limits, bounds=up)
    return float(found.fun) if found.status == 0 else math.inf


@pytest.mark.parametrize("which", ["grid", "knapsack"])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.3])
def test_the_change_is_the_smallest_of_all_sets_of_rows(
    which: str, share: float, request: pytest.FixtureRequest
) -> None:
    pipeline: cfopt.Pipeline = request.getfixturevalue(which)
    size = pipeline.predictor.in_features  # type: ignore[attr-defined]
    most = np.full(size, np.inf)
    most[1] = 0.0
    changed = [j for j in range(size) if j != 1]
    found = set()
    for seed in range(3):
        x0 = normal(ROWS, size, seed=seed)
        # Rows that are near one another can often be met together.
        near = 0.3 * x0 + x0[:1]
        plans = pipeline.decide(near + 0.5 * normal(1, size, seed=seed + 20))
        needed = math.ceil(share * ROWS)
        truth = min(
            cheapest(pipeline, near[list(rows)].numpy(), plans[list(rows)].numpy(), most)
            for rows in combinations(range(ROWS), needed)
        )
        group = cfopt.explain_group(
            near, pipeline, cfopt.Absolute(plans), change=changed, share=share, proximity=cfopt.L1()
        )
        found.add(math.isfinite(truth))
        if math.isinf(truth):
            assert group.infeasible
            assert not group.valid
            continue
        assert group.valid
        assert group.optimal
        assert group.loss == pytest.approx(truth, abs=1e-7)
        assert group.bound == pytest.approx(truth, abs=1e-7)
        assert int(group.holds.sum()) >= needed
        assert group.change[1] == 0
        moved = group.explanation.x - group.explanation.x0
        assert torch.allclose(moved, group.change.expand_as(moved), atol=1e-12)
        # By the pipeline itself: the plan costs no more than what it decides there.
        costs = pipeline.costs(group.explanation.x)
        best = pipeline.decide(group.explanation.x)
        sign = 1.0 if pipeline.problem.sense == "min" else -1.0
        off = sign * ((plans - best) * costs).sum(1)
        assert torch.equal(group.holds, off <= 1e-6 * costs.abs().sum(1))
    assert True in found


def test_limits_have_to_be_kept_in_every_row(grid: cfopt.Pipeline) -> None:
    x0 = 0.2 * normal(4, 4, seed=1)
    plans = grid.decide(x0 + normal(1, 4, seed=2))
    asked = {"share": 0.75, "proximity": cfopt.L1()}
    free = cfopt.explain_group(x0, grid, cfopt.Absolute(plans), **asked)
    assert free.optimal
    j = int(free.change.abs().argmax())
    # In the row that is farthest out, only half of that change is left.
    half = 0.5 * float(free.change[j].abs())
    low, high = float(x0[:, j].min()) - half, float(x0[:, j].max()) + half
    within = cfopt.Features(list("abcd"), lower={"abcd"[j]: low}, upper={"abcd"[j]: high})
    limited = cfopt.explain_group(x0, grid, cfopt.Absolute(plans), features=within, **asked)
    most = np.full(4, np.inf)
    most[j] = half
    truth = min(
        cheapest(grid, x0[list(rows)].numpy(), plans[list(rows)].numpy(), most)
        for rows in combinations(range(4), 3)
    )
    assert truth > free.loss + 1e-6
    if math.isinf(truth):
        assert limited.infeasible
    else:
        assert limited.loss == pytest.approx(truth, abs=1e-7)
        assert limited.optimal
    whole = cfopt.Features(list("abcd"), integer=["a"])
    steps = x0.clone()
    steps[:, 0] = torch.arange(4)
    rounded = cfopt.explain_group(
        steps, grid, cfopt.Absolute(plans), share=0.25, features=whole, change=["a", "c"]
    )
    assert rounded.change[1] == rounded.change[3] == 0
    assert float(rounded.change[0]) == round(float(rounded.change[0]))


def test_where_nothing_can_be_proved_changes_are_tried(grid: cfopt.Pipeline) -> None:
    x0 = 0.2 * normal(5, 4, seed=1)
    plans = grid.decide(x0 + normal(1, 4, seed=2))
    exact = cfopt.explain_group(x0, grid, cfopt.Absolute(plans), share=0.6)
    network = torch.nn.Sequential(grid.predictor, torch.nn.LeakyReLU(0.999))
    bent = cfopt.Pipeline(network, grid.problem)
    tried = cfopt.explain_group(x0, bent, cfopt.Absolute(plans), share=0.6)
    assert exact.optimal
    assert tried.valid
    assert not tried.optimal
    assert math.isnan(tried.bound)
    # Nearly the same predictor: nearly as near.
    assert 0.99 * exact.loss <= tried.loss <= 2 * exact.loss
    some = cfopt.explain_group(x0, grid, cfopt.Epsilon(0.05), share=0.6)
    assert some.valid
    assert "found by trying" in some.message


def test_a_group_says_what_it_found(grid: cfopt.Pipeline) -> None:
    x0 = 0.2 * normal(4, 4, seed=1)
    plans = grid.decide(x0 + normal(1, 4, seed=2))
    names = cfopt.Features(["rain", "wind", "heat", "day"])
    group = cfopt.explain_group(x0, grid, cfopt.Absolute(plans), features=names, share=0.5)
    text = group.summary()
    assert text.startswith("One change for 4 contexts, enough in at least 2.\nProved to be the")
    assert f"holds in {int(group.holds.sum())} of 4" in text
    table = group.table()
    assert set(table["feature"]) <= {"rain", "wind", "heat", "day"}
    assert table["change"].abs().is_monotonic_decreasing
    nothing = cfopt.explain_group(x0, grid, cfopt.Absolute(grid.decide(x0)))
    assert nothing.loss == 0
    assert "nothing" in nothing.summary()
    with pytest.raises(InputError, match="share above 0"):
        cfopt.explain_group(x0, grid, cfopt.Absolute(plans), share=0)
    with pytest.raises(InputError, match="change as a list"):
        cfopt.explain_group(x0, grid, cfopt.Absolute(plans), change="rain")
    with pytest.raises(InputError, match="'snow', which is not a feature"):
        cfopt.explain_group(x0, grid, cfopt.Absolute(plans), features=names, change=["snow"])
    broken = x0.clone()
    broken[0, 0] = torch.nan
    with pytest.raises(InputError, match="only 3 of 4 can"):
        cfopt.explain_group(broken, grid, cfopt.Absolute(plans))
    assert cfopt.explain_group(broken, grid, cfopt.Absolute(plans), share=0.5).needed == 2
