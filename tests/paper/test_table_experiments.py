"""The tabular experiments, compared with loops, brute force and direct calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog

import cfopt
from cfopt.datasets import synthetic
from cfopt_paper.catalogue import EXPERIMENTS
from cfopt_paper.departures import AS_DRAWN, LISTS, Departures
from cfopt_paper.job import in_order
from cfopt_paper.scale import QUICK
from cfopt_paper.study import Study
from cfopt_paper.summary import SEEDS, between_seeds
from cfopt_paper.table_experiments import TABLES
from cfopt_paper.table_models import TrainTable, base_model, text_costs, text_data
from cfopt_paper.table_runs import AnyRegret, TableRun, table_tasks
from cfopt_paper.table_sweeps import PROVED, RATIO, SHARED, beside, seeded

pytest.importorskip("pyepo")

TINY = replace(QUICK, table_tasks=5, table_steps=150, table_training=0.03)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "study", TINY)


def _do(study: Study, *jobs: TableRun) -> pd.DataFrame:
    for job in in_order(jobs):
        study.do(job)
    return study.table(*jobs)


def test_the_formula_of_the_text_is_the_one_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    x, mixing = rng.normal(size=(4, 3)), rng.integers(0, 2, size=(5, 3)).astype(float)
    noise = rng.uniform(0.5, 1.5, size=(4, 5))
    costs = text_costs(x, mixing, noise)
    for i in range(4):
        for j in range(5):
            inner = sum(mixing[j, k] * x[i, k] for k in range(3)) / 3**0.5
            assert costs[i, j] == pytest.approx(
                ((inner + 3) ** 4 / 3.5**4 + 1) * noise[i, j], rel=1e-12
            )


@pytest.mark.parametrize(("kind", "size"), [("grid", 3), ("knapsack", 6)])
def test_only_the_formula_differs_from_the_data_of_pyepo(kind: str, size: int) -> None:
    text = text_data(kind, 50, 4, size, seed=140)
    if kind == "grid":
        theirs = synthetic.grid(50, 4, size, size, seed=140)
        # c = (a^4 + 1) e / 3.5^4 there, (a^4 / 3.5^4 + 1) e here.
        difference = text.costs - theirs.costs.double()
        noise = difference / (1 - 3.5**-4)
        assert 0.5 <= noise.min() <= noise.max() <= 1.5 + 1e-6
    else:
        theirs = synthetic.knapsack(50, 4, size, seed=140)
        ones = torch.eye(size, dtype=torch.float64).numpy()
        assert text.problem.faults(ones) == theirs.problem.faults(ones)
        assert torch.equal(
            text.problem.solve(theirs.costs.double()), theirs.problem.solve(theirs.costs.double())
        )
        assert (text.costs != text.costs.ceil()).any()
    assert torch.allclose(text.contexts, theirs.contexts.double(), atol=1e-6)


def test_alternatives_are_true_optima_and_not_the_own_decision(study: Study) -> None:
    model = base_model("knapsack", size=6)
    study.do(model)
    tasks, (contexts, costs) = table_tasks(study, model), model.data(study).tests
    pipeline = model.pipeline(study)
    optima = pipeline.problem.solve(costs)
    for x, y, own in zip(tasks.x0, tasks.wanted, pipeline.decide(tasks.x0), strict=True):
        assert (contexts == x).all(1).any()
        assert (optima == y).all(1).any()
        assert not torch.equal(y, own)


def test_a_run_is_what_a_direct_call_finds(study: Study) -> None:
    model = base_model("grid", size=3)
    runs = [
        TableRun(model, criterion, search)
        for criterion in ("relative", "absolute", "epsilon")
        for search in ("MDMM", "default")
    ]
    found = _do(study, *runs)
    tasks, pipeline = table_tasks(study, model), model.pipeline(study)
    asked = {
        "relative": cfopt.Relative(tasks.wanted),
        "absolute": cfopt.Absolute(tasks.wanted),
        "epsilon": AnyRegret(1.0),
    }
    searches = {
        "MDMM": cfopt.MDMM(step=0.1, max_steps=150, counting=cfopt.Counting.ALL_STEPS),
        "default": cfopt.Auto(),
    }
    for (criterion, search), rows in found.groupby(["criterion", "search"]):
        e = cfopt.explain(tasks.x0, pipeline, asked[criterion], search=searches[search])
        assert rows["steps"].tolist() == e.steps.tolist()
        assert rows["status"].tolist() == [str(status) for status in e.status]
        squared = (e.x - tasks.x0).square().sum(1)
        squared[~e.valid] = torch.nan
        assert np.allclose(rows["squared distance"], squared, equal_nan=True)


def test_the_paper_s_rule_counts_a_plan_that_has_become_free() -> None:
    prices, choices = [[1.0, 3.0, 4.0]], cfopt.problems.Finite(torch.eye(3))
    free = cfopt.explain_costs(prices, choices, AnyRegret(0.3))
    assert torch.allclose(free.x, torch.tensor([[0.0, 3.0, 4.0]]).double(), atol=1e-9)
    assert cfopt.explain_costs(prices, choices, cfopt.Epsilon(0.3)).loss > free.loss + 0.1


def test_the_text_s_stopping_rule_waits_for_longer(study: Study) -> None:
    model = base_model("grid", size=3)
    drawn = TableRun(model, "absolute", "MDMM")
    text = replace(drawn, counting=cfopt.Counting.VALID_STEPS)
    found = _do(study, drawn, text)
    steps = found.groupby("counting")["steps"].sum()
    assert steps["valid steps"] >= steps["all steps"]
    assert drawn.name != text.name


def test_tasks_proved_infeasible_are_those_without_a_feasible_point(tmp_path: Path) -> None:
    """Against an LP over every packing: is there x with <Wx + b, y_alt - y> >= 0 for all y?"""
    study = Study(tmp_path / "study", replace(TINY, table_tasks=20))
    model = base_model("knapsack", features=2, size=10)
    rows = _do(study, TableRun(model, "absolute", "default"))
    pipeline, tasks = model.pipeline(study), table_tasks(study, model)
    layer = pipeline.predictor[0]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    packings = pipeline.problem.list_decisions(100_000)
    possible = []
    for wanted in tasks.wanted.numpy():
        lead = packings - wanted
        answer = linprog(np.zeros(2), A_ub=lead @ weight, b_ub=-lead @ bias, bounds=(None, None))
        possible.append(answer.status == 0)
    assert rows["proved infeasible"].tolist() == [not one for one in possible]
    assert rows["valid"].tolist() == possible
    assert 0 < sum(possible) < len(possible)


def test_a_model_is_trained_once_and_comes_back_as_it_was(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = base_model("knapsack", size=6, layers=2)
    trained = []
    run = TrainTable.run
    monkeypatch.setattr(
        TrainTable, "run", lambda job, *rest: trained.append(job.name) or run(job, *rest)
    )
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    _do(study, TableRun(model, "relative", "default"), TableRun(model, "epsilon", "default"))
    assert trained == [model.name]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    before = model.pipeline(study).costs(table_tasks(study, model).x0)
    again = Study(study.folder, TINY)
    assert torch.equal(model.pipeline(again).costs(table_tasks(again, model).x0), before)


def test_training_until_nothing_gets_better_keeps_points_back(study: Study) -> None:
    model = base_model("knapsack", size=6, layers=2, converged=True)
    study.do(model)
    assert len(model.data(study).contexts) == 6000
    longer = base_model("grid", converged=True)
    assert len(longer.data(study).training[0]) == 10_000
    losses = study.table(model)["loss"]
    x, costs = (points[-1000:] for points in model.data(study).training)
    error = (model.pipeline(study).costs(x) - costs).square().mean().item()
    assert error == pytest.approx(losses.min())


def test_distances_are_compared_where_both_searches_have_an_answer() -> None:
    rows = pd.DataFrame(
        {
            "search": ["MDMM"] * 3 + ["default"] * 3,
            "size": 5,
            "seed": 0,
            "task": [0, 1, 2, 2, 1, 0],
            "squared distance": [4.0, np.nan, 0.0, 0.0, 2.0, 1.0],
        }
    )
    found = beside(rows, ("search", "size"))
    assert found[SHARED].fillna(-1).tolist() == [4, -1, 0, 0, -1, 1]
    assert found[RATIO].fillna(-1).tolist() == [2, -1, -1, -1, -1, -1]


def test_each_seed_has_data_weights_and_tasks_of_its_own(study: Study) -> None:
    first, second = seeded(base_model("grid"), replace_seeds(study, 2))
    for model in (first, second):
        study.do(model)
    assert first.name != second.name
    assert not torch.equal(first.data(study).contexts, second.data(study).contexts)
    assert not torch.equal(table_tasks(study, first).x0, table_tasks(study, second).x0)
    rows = _do(study, *(TableRun(model, "relative", "default") for model in (first, second)))
    assert rows["seed"].unique().tolist() == [0, 1]


def replace_seeds(study: Study, count: int) -> Study:
    return Study(study.folder.parent / "seeds", replace(study.scale, table_seeds=count))


def test_the_spread_of_seeds_is_that_of_their_means() -> None:
    rows = pd.DataFrame(
        {
            "size": [1, 1, 1, 1, 2, 2],
            "seed": [0, 0, 1, 1, 0, 1],
            "steps": [1.0, 3.0, 10.0, np.nan, 5.0, np.nan],
            "valid": [True, False, True, True, False, False],
        }
    )
    found = between_seeds(rows, ("size",), ("steps", "valid")).set_index(["size", "measure"])
    assert found.loc[(1, "steps")].tolist() == [2, 10]
    assert found.loc[(1, "valid")].tolist() == [0.5, 1]
    assert found.loc[(2, "steps")].tolist() == [5, 5]


def test_the_summary_counts_what_is_proved_infeasible(tmp_path: Path) -> None:
    study = Study(tmp_path / "study", replace(TINY, knapsack_features=(2,), table_tasks=8))
    experiment = EXPERIMENTS["knapsack-features"]
    for job in in_order(experiment.jobs(study)):
        study.do(job)
    rows = experiment.rows(study)
    summary = experiment.summary(rows)
    of = summary[summary["measure"] == PROVED].set_index(["search", "criterion"])["mean"]
    ours = rows[(rows["search"] == "default") & (rows["criterion"] == "absolute")]
    assert of["default", "absolute"] == ours["proved infeasible"].sum() > 0
    assert of["MDMM", "absolute"] == 0
    assert set(summary["measure"]) == {*experiment.values, PROVED}
    counted = ["measure", "tasks", "count", "mean", "low", "high", *SEEDS]
    assert list(summary.columns) == [*experiment.keys, *counted]
    (figure,) = experiment.draw(study, rows, summary).values()
    answers = figure.axes[1]
    (bar,) = answers.patches
    assert -bar.get_height() == pytest.approx(ours["proved infeasible"].mean())


def test_an_epsilon_picture_shows_the_mean_distances_of_shared_tasks(tmp_path: Path) -> None:
    study = Study(tmp_path / "study", replace(TINY, table_steps=1000))
    experiment = EXPERIMENTS["grid-epsilon"]
    for job in in_order(experiment.jobs(study)):
        study.do(job)
    rows = experiment.rows(study)
    summary = experiment.summary(rows)
    (figure,) = experiment.draw(study, rows, summary).values()
    both = rows.pivot(index=["epsilon", "task"], columns="search", values="squared distance")
    means = both.dropna().groupby("epsilon").mean()
    assert list(means.index) == list(TINY.grid_epsilons)
    for line, search in zip(figure.axes[0].lines, ("MDMM", "default"), strict=False):
        assert line.get_ydata() == pytest.approx(means[search].to_numpy())


def test_experiments_share_their_jobs_and_each_has_a_name_of_its_own(study: Study) -> None:
    experiments = [*TABLES, Departures()]
    jobs = in_order([job for e in experiments for job in e.jobs(study)])
    assert len({job.name for job in jobs}) == len(jobs)
    shared = {*EXPERIMENTS["grid-size"].jobs(study)} & {*EXPERIMENTS["grid-epsilon"].jobs(study)}
    assert {job.epsilon for job in shared if isinstance(job, TableRun)} == {1.0}


def test_departures_stand_beside_the_figures_and_the_paper(tmp_path: Path) -> None:
    study = Study(tmp_path / "study", replace(TINY, table_tasks=3, table_seeds=2, table_steps=40))
    experiment = Departures()
    for job in in_order(experiment.jobs(study)):
        study.do(job)
    rows = experiment.rows(study)
    summary = experiment.summary(rows)
    steps = summary[summary["measure"] == "steps"]
    assert len(steps) == 2 * 5 * 3
    for (kind, criterion), of in steps.groupby(["kind", "criterion"]):
        own = rows[(rows["kind"] == kind) & (rows["criterion"] == criterion)]
        drawn = own[own["departure"] == AS_DRAWN]
        assert (drawn[["formula", "training", "counting"]] == ["pyepo", "MSE", "all steps"]).all(
            axis=None
        )
        assert np.allclose(of["mean as for the figures"], drawn["steps"].mean())
        ends = of.set_index("departure").loc[AS_DRAWN, ["lowest seed", "highest seed"]]
        assert sorted(ends) == sorted(drawn.groupby("seed")["steps"].mean())
    assert set(rows["seed"]) == {0, 1}
    at = steps.set_index(["kind", "criterion"])["paper"]
    assert set(at["grid", "absolute"]) == {290.8}
    assert set(at["knapsack", "epsilon"]) == {184.9}
    named = summary[summary["measure"].isna()]
    assert set(named["departure"]) == {one.name for some in LISTS.values() for one in some}
    (figure,) = experiment.draw(study, rows, summary).values()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == list(dict.fromkeys(rows["departure"]))
