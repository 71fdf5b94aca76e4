"""The trade-off between few changes and near answers, against all sets of features."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.independent import cuts, nearest_l1, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.problems import GridShortestPath, Knapsack


@pytest.fixture(scope="module")
def grid3() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(5, problem.num_costs, bias=4.0), problem)


@pytest.fixture(scope="module")
def knapsack6() -> cfopt.Pipeline:
    problem = Knapsack(np.random.default_rng(0).uniform(3, 8, (1, 6)), [14.0])
    return cfopt.Pipeline(random_linear(5, 6, seed=3, bias=3.0), problem)


def _nearest(pipeline, x0, wanted, count, nearest) -> float:
    """The least distance over all sets of so many features, by all decisions at once."""
    g, h = cuts(pipeline, x0, wanted - pipeline.problem.decisions().numpy())
    kept = np.abs(g).sum(1) > 1e-12
    return min(nearest(g[kept][:, s], h[kept]) for s in map(list, combinations(range(5), count)))


@pytest.mark.parametrize(
    ("proximity", "nearest"), [(cfopt.L2(), nearest_l2), (cfopt.L1(), nearest_l1)]
)
@pytest.mark.parametrize("name", ["grid3", "knapsack6"])
def test_each_point_is_the_best_of_all_sets_and_the_smallest_number_is_proved(
    name, proximity, nearest, request
) -> None:
    pipeline = request.getfixturevalue(name)
    x0 = normal(3, 5)
    wanted = another(pipeline, x0)
    if name == "knapsack6":  # most of its decisions are best for few prices
        wanted = pipeline.problem.decisions()[[5, 17, 23]]
    curve = cfopt.trade_off(x0, pipeline, cfopt.Absolute(wanted), proximity=proximity)
    assert len(curve) == 3
    told = []
    for row, answers in enumerate(curve.answers):
        x, y = x0[row].numpy(), wanted[row].numpy()
        best = [_nearest(pipeline, x, y, count, nearest) for count in range(1, 6)]
        least = next((count for count, loss in enumerate(best, 1) if loss < np.inf), None)
        assert curve.fewest[row] == least
        told.append(curve.verdict(row))
        if least is None:
            assert not answers
            assert curve.unrestricted.status[row] == "proved infeasible"
            continue
        assert curve.proved[row]
        for count, one in enumerate(answers, 1):
            assert (one.status[0] == "proved infeasible") == (best[count - 1] == np.inf)
            if one.valid[0]:
                assert one.optimal[0]
                assert float(one.loss[0]) == pytest.approx(best[count - 1], rel=1e-5)
                assert int((one.x[0] != x0[row]).sum()) <= count
                assert one.features.max_changes == count
        # It ends where more changes bring nothing, and not before.
        assert float(answers[-1].loss[0]) == pytest.approx(best[-1], rel=1e-5)
        assert len(answers) == 1 or best[len(answers) - 2] > best[-1] * (1 + 1e-6)
    if name == "knapsack6":
        assert any("are needed" in words and words.endswith("(proved).") for words in told)
    else:
        assert any(words.startswith("One change is enough: ") for words in told)


def test_words_table_and_picture_say_the_same(grid3, tmp_path: Path) -> None:
    names = ["rain", "traffic", "events", "snow", "wind"]
    x0 = pd.DataFrame(normal(2, 5).numpy(), columns=names, index=["monday", "sunday"])
    curve = cfopt.trade_off(x0, grid3, cfopt.Epsilon(0.2), features=cfopt.Features(names))
    table = curve.to_dataframe()
    assert set(table.index) == {"monday", "sunday"}
    for day, one in zip(x0.index, curve, strict=True):
        lines = table.loc[[day]]
        assert lines["at most"].tolist() == list(range(1, len(lines) + 1))
        assert lines["loss"].is_monotonic_decreasing
        assert (lines["changed"].map(len) <= lines["at most"]).all()
        text = one.summary()
        for changed in lines["changed"][lines["valid"]]:
            assert any(all(name in line for name in changed[:4]) for line in text.splitlines())
        assert "More changes do not bring it nearer." in text.splitlines()
        figure = one.plot(tmp_path / f"{day}.png")
        assert (tmp_path / f"{day}.png").stat().st_size > 5000
        drawn = next(line for line in figure.axes[0].lines if line.get_label().startswith("at"))
        assert np.allclose(drawn.get_ydata(), np.sqrt(lines["loss"][lines["valid"]]))
    assert "monday: " in curve.summary()
    assert "sunday: " in curve.summary()
    with pytest.raises(cfopt.InputError, match="single row"):
        curve.plot()


def test_rows_without_a_curve_say_why(grid3, knapsack6) -> None:
    x0 = normal(1, 5)
    done = cfopt.trade_off(x0, grid3, cfopt.Absolute(grid3.decide(x0)))
    assert done.answers == ((),)
    assert done.verdict() == "No change is needed."
    with pytest.raises(cfopt.InputError, match="nothing to draw: No change is needed"):
        done.plot()
    held = cfopt.Features(immutable=range(5))
    never = cfopt.trade_off(x0, grid3, cfopt.Absolute(another(grid3, x0)), features=held)
    assert never.verdict().startswith("No number of changes is enough (proved): ")
    assert len(never.to_dataframe()) == 0
    with pytest.raises(cfopt.InputError, match="whole number >= 1"):
        cfopt.trade_off(x0, grid3, cfopt.Epsilon(0.2), most=0)


def test_no_more_changes_are_asked_about_than_wanted(knapsack6) -> None:
    x0 = normal(3, 5)
    wanted = cfopt.Absolute(knapsack6.problem.decisions()[[5, 17, 23]])
    whole = cfopt.trade_off(x0, knapsack6, wanted)
    cut = cfopt.trade_off(x0, knapsack6, wanted, most=1)
    assert [len(one) for one in cut.answers] == [min(len(one), 1) for one in whole.answers]
    short = [row for row, count in enumerate(whole.fewest) if count is not None and count > 1]
    assert short
    for row in short:
        assert cut.fewest[row] is None
        assert cut.verdict(row) == "More than one change is needed (proved)."


def test_behind_a_network_no_point_is_farther_than_one_with_fewer_changes(grid3) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12), torch.nn.Softplus()]
    pipeline = cfopt.Pipeline(torch.nn.Sequential(*layers).double(), grid3.problem)
    x0 = normal(2, 5)
    search = cfopt.Sequential(restarts=0)
    curve = cfopt.trade_off(x0, pipeline, cfopt.Epsilon(0.02), search=search)
    assert any(count is not None for count in curve.fewest)
    for row, answers in enumerate(curve.answers):
        losses = [float(one.loss[0]) for one in answers if one.valid[0]]
        assert losses == sorted(losses, reverse=True)
        for count, one in enumerate(answers, 1):
            assert int((one.x[0] != x0[row]).sum()) <= count
            costs = pipeline.costs(one.x).detach()
            best = (costs @ grid3.problem.decisions().T).min()
            lost = (costs * one.factual).sum() >= 1.02 * best - 1e-5 * best.abs()
            assert bool(lost) or not one.valid[0]
