"""What it would have had to cost: against linear programming duality, and brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import torch
from benchmarks.independent import is_feasible, nearest_l1, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.datasets import synthetic
from cfopt.problems import MILP, GridShortestPath
from cfopt.result.wording import price_words


def by_duality(
    problem: GridShortestPath,
    costs: np.ndarray,
    path: np.ndarray,
    norm: str,
    bounds: tuple[np.ndarray, np.ndarray],
) -> float:
    """The least `|c - costs|` for which a path is shortest, as one linear program.

    A path is shortest if and only if some potentials p respect every arc, `p_j - p_i <= c_ij`, and
    rise by its length from end to end. Variables: c, p, and the sizes of the changes.
    """
    arcs, nodes = len(problem.arcs), problem.rows * problem.cols
    incidence = np.zeros((arcs, nodes))
    for k, (source, target) in enumerate(problem.arcs):
        incidence[k, source], incidence[k, target] = -1.0, 1.0
    unit, none = np.eye(arcs), np.zeros((arcs, nodes))
    size = unit if norm == "L1" else np.ones((arcs, 1))
    width = size.shape[1]
    rise = np.zeros(nodes)
    rise[0], rise[-1] = 1.0, -1.0
    rows = np.block(
        [
            [-unit, incidence, np.zeros((arcs, width))],
            [path[None], rise[None], np.zeros((1, width))],
            [unit, none, -size],
            [-unit, none, -size],
        ]
    )
    limits = np.concatenate([np.zeros(arcs + 1), costs, -costs])
    objective = np.concatenate([np.zeros(arcs + nodes), np.ones(width)])
    ends = [*zip(*bounds, strict=True), *[(None, None)] * nodes, *[(0, None)] * width]
    found = scipy.optimize.linprog(objective, rows, limits, bounds=ends, method="highs")
    return float(found.fun) if found.status == 0 else np.inf


@pytest.mark.parametrize("norm", ["L1", "LInf"])
@pytest.mark.parametrize("limited", [False, True])
def test_prices_of_paths_are_those_of_linear_programming_duality(norm: str, limited: bool) -> None:
    problem = GridShortestPath(4, 4)
    costs = 1 + normal(20, 24, seed=1).abs()
    wanted = another(cfopt.Pipeline(random_linear(6, 24, bias=6.0), problem), normal(20, 6, seed=2))
    names = problem.cached_scene.names
    features = cfopt.Features()
    lower, upper = np.full((20, 24), -np.inf), np.full((20, 24), np.inf)
    if limited:
        features = cfopt.Features(lower=0.5, upper=3.5, immutable=[names[0], names[5]])
        costs = costs.clamp(0.5, 3.5)
        lower, upper = np.full((20, 24), 0.5), np.full((20, 24), 3.5)
        lower[:, [0, 5]] = upper[:, [0, 5]] = costs.numpy()[:, [0, 5]]
    e = cfopt.explain_costs(
        costs,
        problem,
        cfopt.Absolute(wanted),
        proximity={"L1": cfopt.L1(), "LInf": cfopt.LInf()}[norm],
        features=features,
    )
    assert e.features.names == names
    for row in range(20):
        own = (lower[row], upper[row])
        least = by_duality(problem, costs[row].numpy(), wanted[row].numpy(), norm, own)
        if e.status[row] == "proved infeasible":
            assert least == np.inf
        else:
            assert e.valid[row]
            assert float(e.loss[row]) == pytest.approx(least, rel=1e-6, abs=1e-9)
            assert e.optimal[row] or e.loss[row] == 0
    assert torch.equal(e.costs, e.x)


def test_prices_of_a_knapsack_are_the_nearest_of_all_decisions() -> None:
    problem = synthetic.knapsack(5, 3, 8, seed=4).problem
    values = 1 + normal(15, 8, seed=3).abs()
    listed = problem.decisions().numpy()
    picked = np.random.default_rng(0).integers(len(listed), size=15)
    wanted = torch.from_numpy(listed[picked])
    for proximity, nearest in ((cfopt.L1(), nearest_l1), (cfopt.L2(), nearest_l2)):
        e = cfopt.explain_costs(values, problem, cfopt.Absolute(wanted), proximity=proximity)
        for row in range(15):
            # It maximises: values of other decisions must not be larger.
            g = listed - listed[picked[row]]
            kept = np.abs(g).sum(1) > 0
            h = -g[kept] @ values[row].numpy()
            assert is_feasible(g[kept], h)
            assert float(e.loss[row]) == pytest.approx(nearest(g[kept], h), rel=1e-6, abs=1e-9)
            assert e.optimal[row] or e.loss[row] == 0


def test_a_model_file_is_explained_with_its_own_objective(tmp_path: Path) -> None:
    path = tmp_path / "plan.lp"
    path.write_text(
        "maximize\n obj: 3 bread + 2 cake\nsubject to\n oven: bread + cake <= 4\n"
        " flour: bread + 3 cake <= 6\nbounds\n bread <= 3\nend\n"
    )
    problem = MILP.from_file(path)
    wanted = [0.0, 2.0]  # cake alone; decided are 3 bread and 1 cake
    e = cfopt.explain_costs(None, problem, cfopt.Absolute(wanted))
    assert e.features.names == ("bread", "cake")
    assert e.x0.tolist() == [[3.0, 2.0]]
    # Cake alone is best if 3 bread <= cake and bread <= 0 does not matter: 3 * bread <= cake.
    assert float(e.loss[0]) == pytest.approx(3.0 - 2.0 / 3.0, rel=1e-6)
    assert e.optimal.all()
    assert float(e.x[0, 0]) == pytest.approx(2.0 / 3.0, rel=1e-6)
    with pytest.raises(cfopt.InputError, match="no costs of its own"):
        cfopt.explain_costs(None, GridShortestPath(3, 3), cfopt.Epsilon(0.1))


def test_prices_stand_beside_explanations_of_contexts_in_summary_and_json() -> None:
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(random_linear(4, 12, bias=5.0), problem)
    x0 = normal(5, 4, seed=5)
    criterion = cfopt.Absolute(another(pipeline, x0))
    e = cfopt.explain(x0, pipeline, criterion, prices=cfopt.Prices())
    alone = cfopt.explain_costs(pipeline.costs(x0).detach(), problem, criterion)
    assert e.prices is not None
    assert torch.allclose(e.prices.loss, alone.loss)
    assert e.prices.optimal.all()
    again = cfopt.Explanation.from_json(e.to_json(), problem)
    assert again.prices is not None
    assert torch.allclose(again.prices.x, e.prices.x)
    assert again.asked.prices is not None
    row = e[2]
    assert len(row.prices) == 1
    assert "would have to cost" in row.summary()
    assert "%" in row.summary()
    assert len(cfopt.Explanation.concat([row, e[3]]).prices) == 2


def test_what_is_no_price_is_refused() -> None:
    problem = GridShortestPath(3, 3)
    with pytest.raises(cfopt.InputError, match="Prices needs a proximity"):
        cfopt.Prices(cfopt.Latent())
    with pytest.raises(cfopt.InputError, match="Prices needs Features"):
        cfopt.explain_costs(torch.ones(12), problem, cfopt.Epsilon(0.1), features=3)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (4.0, 3.5, "A-B would have to cost 12% less"),
        (4.0, 4.01, "A-B would have to cost 0.25% more"),
        (2.0, 4.5, "A-B would have to cost 125% more"),
        (0.001, 3.0, "A-B would have to cost 299,900% more"),
        (0.0, 3.0, "A-B would have to cost 3 instead of 0"),
        (-1.0, 3.0, "A-B would have to cost 3 instead of -1"),
    ],
)
def test_prices_are_told_in_plain_percentages(before: float, after: float, said: str) -> None:
    assert price_words("A-B", before, after) == said
