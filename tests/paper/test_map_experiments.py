"""The paper's experiments on maps, what they are summed up to, and the claims."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from matplotlib.image import imread

import cfopt
from cfopt import metrics
from cfopt.datasets import Terrain
from cfopt.errors import InputError
from cfopt_paper import checks
from cfopt_paper.catalogue import EXPERIMENTS
from cfopt_paper.claims import Claim, Verdict, as_markdown, below, claims, decided, deciding
from cfopt_paper.findings import Estimate, Findings
from cfopt_paper.job import in_order
from cfopt_paper.map_boxes import advantage, auc
from cfopt_paper.map_models import TrainCNN, TrainVAE, map_data, map_pipeline
from cfopt_paper.map_pictures import Pictured
from cfopt_paper.map_runs import MapRun, map_runs, map_tasks
from cfopt_paper.paper import paper_values
from cfopt_paper.scale import PAPER, QUICK, STANDARD
from cfopt_paper.study import Study
from cfopt_paper.summary import summarise
from cfopt_paper.table_sweeps import RATIO


def test_a_summary_has_student_s_interval_of_what_is_known() -> None:
    values = np.random.default_rng(0).normal(size=12)
    rows = pd.DataFrame({"setting": [1] * 13 + [2], "v": [*values, np.nan, 5.0]})
    first, second = summarise(rows, ["setting"], ["v"]).to_dict(orient="records")
    low, high = scipy.stats.t.interval(0.95, 11, values.mean(), scipy.stats.sem(values))
    assert (first["tasks"], first["count"]) == (13, 12)
    assert [first["mean"], first["low"], first["high"]] == pytest.approx([values.mean(), low, high])
    assert (second["mean"], second["count"]) == (5.0, 1)
    assert math.isnan(second["low"])
    empty = summarise(pd.DataFrame({"setting": [1], "v": [np.nan]}), ["setting"], ["v"])
    assert empty["count"].item() == 0
    assert math.isnan(empty["mean"].item())


@pytest.mark.parametrize("holds", [0, 3, 12])
def test_a_share_has_wilson_s_interval_which_stays_between_0_and_1(holds: int) -> None:
    rows = pd.DataFrame({"setting": 1, "valid": [True] * holds + [False] * (12 - holds) + [None]})
    (found,) = summarise(rows, ["setting"], ["valid"]).to_dict(orient="records")
    # Its ends are the chances p from which the share is just 1.96 deviations away.
    z, share = scipy.stats.norm.ppf(0.975), holds / 12
    ends = np.roots([12 + z**2, -(24 * share + z**2), 12 * share**2])
    assert (found["count"], found["mean"]) == (12, share)
    assert [found["low"], found["high"]] == pytest.approx(sorted(ends), abs=1e-12)
    assert -1e-12 <= found["low"] < found["high"] <= 1 + 1e-12


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(1)
    high, low = random.integers(0, 6, 20).astype(float), random.integers(0, 5, 15).astype(float)
    pairs = [(a > b) + 0.5 * (a == b) for a in high for b in low]
    with_gap = pd.Series([*high, np.nan])
    assert auc(with_gap, pd.Series(low)) == pytest.approx(np.mean(pairs))
    assert math.isnan(auc(pd.Series([np.nan]), pd.Series(low)))


@pytest.mark.long
def test_the_advantage_of_an_error_comes_with_an_interval() -> None:
    random = np.random.default_rng(3)
    pixels, decision = "reconstruction error", "decision-focused error, %"
    noise = random.normal(size=(2, 40))
    first = pd.DataFrame({pixels: noise[0], decision: 10 + noise[0]})
    second = pd.DataFrame({pixels: noise[1], decision: noise[1]})
    mean, low, high = advantage(first, second)
    assert mean == pytest.approx(1 - auc(first[pixels], second[pixels]))
    assert 0 < low <= mean <= high
    # Drawn by hand: the spread of the second area alone, since the first is 1 in every sample.
    drawn = [
        1 - auc(first[pixels].sample(40, replace=True), second[pixels].sample(40, replace=True))
        for _ in range(400)
    ]
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.05)
    assert math.isnan(advantage(first, second[:0])[0])


def test_the_paper_s_values_are_found_by_figure_and_series() -> None:
    values = paper_values("grid: iterations vs number of features n_x", "relative")
    assert values.iloc[0].tolist() == [10, 245.6]
    with pytest.raises(InputError, match="Did you mean 'grid: squared distance vs epsilon'"):
        paper_values("grid: distance vs epsilon", "epsilon")
    with pytest.raises(InputError, match="Did you mean 'relative'"):
        paper_values("grid: iterations vs number of features n_x", "relativ")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_leaves_means_of_its_rows_and_pictures(
    quick_study: Study, name: str
) -> None:
    folder, experiment = quick_study.folder, EXPERIMENTS[name]
    settings = json.loads((folder / f"{name}.json").read_text())
    assert settings["scale"]["name"] == "quick"
    rows, summary = (pd.read_csv(folder / f"{name}{end}.csv") for end in ("", "-summary"))
    keys = list(experiment.keys)
    checked = 0
    for value in set(experiment.values) - {RATIO}:  # ratios have geometric means
        means = rows.groupby(keys, dropna=False)[value].mean()
        found = summary[summary["measure"] == value].set_index(keys)["mean"]
        assert len(found) == len(means)
        for point, mean in means.items():
            assert found.loc[[point]].item() == pytest.approx(mean, nan_ok=True), (value, point)
            checked += not math.isnan(mean)
    assert checked
    pictures = [folder / file for file in settings["files"] if file.endswith(".png")]
    assert pictures
    for path in pictures:
        assert imread(path)[..., :3].std() > 0.01, f"{path.name} is blank"


def test_map_tasks_ask_for_feasible_paths_other_than_the_own(quick_study: Study) -> None:
    tasks, pipeline = map_tasks(quick_study), map_pipeline(quick_study)
    assert len(tasks.x0) == len(tasks.wanted) == QUICK.map_tasks
    assert (tasks.wanted != pipeline.decide(tasks.x0)).any(1).all()
    assert pipeline.problem.is_feasible(tasks.wanted).all()
    seen = map_data(quick_study).training.contexts().flatten(1)
    assert not any((seen == x).all(1).any() for x in tasks.x0.flatten(1))


def test_a_map_run_is_what_a_direct_call_finds(quick_study: Study) -> None:
    run = MapRun("default", alpha=0.0, beta=0.0, count=QUICK.map_tasks)
    assert run in map_runs(QUICK.map_tasks, "default", alpha=0.0, beta=0.0)
    rows = quick_study.table(run)
    tasks, pipeline = map_tasks(quick_study), map_pipeline(quick_study)
    e = cfopt.explain(
        tasks.x0,
        pipeline,
        cfopt.Absolute(tasks.wanted),
        generative=TrainVAE(0.0).load(quick_study),
        plausibility=cfopt.Sphere(0.0),
    )
    assert rows["valid"].tolist() == e.valid.tolist()
    assert e.valid.any()
    assert rows["loss"][rows["valid"]].tolist() == pytest.approx(e.loss[e.valid].tolist(), rel=1e-4)
    judge = TrainVAE().load(quick_study)
    error = 100 * metrics.decision_focused_error(e.x[e.valid], pipeline, judge)
    found = rows["decision-focused error, %"][rows["valid"]]
    assert found.tolist() == pytest.approx(error.tolist(), abs=0.1)
    assert rows["loss"][~rows["valid"]].isna().all()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("maps-alpha-loss", STANDARD.map_tasks),
        ("maps-beta-decision", STANDARD.map_tasks),
        ("maps-boxes", STANDARD.map_tasks),
        ("maps-generators", STANDARD.map_tasks),
        ("maps-beta-loss", STANDARD.other_map_tasks),
        ("maps-latents", STANDARD.other_map_tasks),
    ],
)
def test_all_points_of_an_experiment_have_the_same_tasks(
    name: str, count: int, tmp_path: Path
) -> None:
    tasks: dict[MapRun, list[int]] = {}
    for job in EXPERIMENTS[name].jobs(Study(tmp_path, STANDARD)):
        if isinstance(job, MapRun):
            point = replace(job, first=0, count=0)
            tasks.setdefault(point, []).extend(range(job.first, job.first + job.count))
    assert tasks
    assert all(of == list(range(count)) for of in tasks.values())


def test_naive_explanations_stay_images(quick_study: Study) -> None:
    e = Pictured("naive").load(quick_study)
    assert e.latent is None
    assert 0 <= e.x.min() < e.x.max() <= 1


def test_models_are_trained_where_none_of_their_kind_comes_with_the_package(
    quick_study: Study, tmp_path: Path
) -> None:
    assert quick_study.table(TrainVAE())["shipped"].tolist() == [True]
    trained = quick_study.table(TrainVAE(latents=16))
    assert trained["number"].tolist() == [1, 2]
    assert TrainVAE(latents=16).load(quick_study).latent_dim == 16
    other = Study(tmp_path / "other", replace(QUICK, training_maps=64, epochs=1), seed=1)
    for job in (TrainCNN(), TrainVAE(0.0)):
        other.do(job)
    assert other.table(TrainVAE(0.0))["number"].tolist() == [1]
    first, second = (map_data(study).tests.images[:20] for study in (quick_study, other))
    assert not torch.equal(first, second)


def _write(folder: Path, name: str, rows: pd.DataFrame, keys: list[str], values: list[str]) -> None:
    rows.to_csv(folder / f"{name}.csv", index=False)
    summarise(rows, keys, values).to_csv(folder / f"{name}-summary.csv", index=False)
    (folder / f"{name}.json").write_text("{}")


def test_differences_are_taken_task_by_task(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    before = random.normal(10, 5, 9)
    after = before - 1 + 0.1 * random.normal(size=9)
    after[3] = np.nan
    rows = pd.DataFrame(
        {"setting": [0] * 9 + [1] * 9, "task": [*range(9)] * 2, "loss": [*before, *after]}
    )
    _write(tmp_path, "one", rows, ["setting"], ["loss"])
    found = Findings(tmp_path, "one")
    change = found.difference("loss", "setting", 0, 1)
    known = ~np.isnan(after)
    independent = scipy.stats.ttest_rel(after[known], before[known]).confidence_interval(0.95)
    assert change.count == 8
    assert (change.low, change.high) == pytest.approx(tuple(independent))
    assert below(change) is Verdict.HOLDS
    assert found.estimate("loss", setting=1).count == 8
    assert math.isnan(found.estimate("loss", setting=7).mean)
    assert math.isnan(found.difference("loss", "setting", 0, 7).mean)


def test_verdicts_need_the_whole_interval_on_one_side() -> None:
    assert below(Estimate(-1.0, -2.0, -0.1, 5)) is Verdict.HOLDS
    assert below(Estimate(-1.0, -2.0, 0.1, 5)) is Verdict.OPEN
    assert below(Estimate(1.0, 0.1, 2.0, 5)) is Verdict.FAILS
    assert below(Estimate(*[math.nan] * 3, 0)) is Verdict.OPEN
    assert decided(True) is Verdict.HOLDS
    assert decided(False) is Verdict.FAILS
    assert decided(False, 1.0, math.nan) is Verdict.OPEN


def test_the_sample_that_would_decide_has_an_interval_that_ends_at_0() -> None:
    # Half the interval is 4 times the mean, so 16 times the tasks shrink it to the mean.
    change = Estimate(-1.0, -5.0, 3.0, 16)
    assert change.deciding == 256
    assert "256 tasks would decide, not 16" in deciding(change)
    half = 4.0 * math.sqrt(16 / change.deciding)
    assert change.mean + half == 0
    assert deciding(Estimate(-1.0, -2.0, -0.1, 5)) == deciding(Estimate(*[math.nan] * 3, 0)) == ""


def test_claims_are_checked_for_the_experiments_that_are_there(quick_study: Study) -> None:
    found = claims(quick_study.folder, checks.CHECKS)
    assert {claim.experiment for claim in found} == set(checks.CHECKS)
    assert set(checks.CHECKS) <= set(EXPERIMENTS)
    written = (quick_study.folder / "claims.md").read_text()
    assert as_markdown(found) in written
    assert len(pd.read_csv(quick_study.folder / "claims.csv")) == len(found)
    sphere = next(claim for claim in found if claim.experiment == "maps-region")
    assert sphere.verdict is Verdict.HOLDS
    assert "C_64 = 7.9688" in sphere.measured


def test_a_claim_that_data_contradict_does_not_hold(tmp_path: Path) -> None:
    def verdicts(regret: dict[float, float], error: dict[float, float]) -> list[Verdict]:
        noise = np.linspace(-0.1, 0.1, 8)
        rows = pd.concat(
            pd.DataFrame(
                {
                    "alpha": alpha,
                    "task": range(8),
                    "regret, predicted costs, %": regret[alpha] + noise,
                    "regret, true costs, %": regret[alpha] + 0.5 + noise,
                    "squared reconstruction error": error[alpha] + noise,
                }
            )
            for alpha in regret
        )
        values = list(rows.columns[2:])
        _write(tmp_path, "maps-alpha-regret", rows, ["alpha"], values)
        found: list[Claim] = claims(tmp_path, checks.CHECKS)
        return [claim.verdict for claim in found]

    as_in_the_paper = verdicts({0: 6.5, 2: 2.9, 10: 2.6}, {0: 106, 2: 96, 10: 153})
    assert as_in_the_paper == [Verdict.HOLDS] * 3
    otherwise = verdicts({0: 2.0, 2: 3.0, 10: 3.0}, {0: 80, 2: 120, 10: 150})
    assert otherwise == [Verdict.FAILS, Verdict.HOLDS, Verdict.FAILS]
    nothing_between = verdicts({0: 6.5, 2: 2.9}, {0: 106, 2: 96})
    assert nothing_between == [Verdict.HOLDS, Verdict.HOLDS, Verdict.OPEN]


@pytest.mark.parametrize(
    ("layers", "verdict"), [((1, 2), Verdict.OPEN), ((1, 2, 3), Verdict.HOLDS)]
)
def test_whether_depths_are_alike_is_open_where_there_is_one(
    tmp_path: Path, layers: tuple[int, ...], verdict: Verdict
) -> None:
    points = [(kind, depth) for kind in ("relative", "absolute", "epsilon") for depth in layers]
    steps = [200.0 if depth == 1 else 2000.0 for _, depth in points]
    rows = pd.DataFrame(points, columns=["criterion", "layers"])
    rows = rows.assign(search="MDMM", task=0, steps=steps)
    _write(tmp_path, "knapsack-depth", rows, ["search", "criterion", "layers"], ["steps"])
    (claim,) = claims(tmp_path, checks.CHECKS)
    assert claim.verdict is verdict


@pytest.mark.long
def test_the_paper_s_models_are_trained_on_the_published_maps(tmp_path: Path) -> None:
    folder = tmp_path / "warcraft" / "12x12"
    folder.mkdir(parents=True)
    for seed, split in enumerate(("train", "val", "test")):
        maps = Terrain().generate(12, seed=50 + seed)
        cells = (12, 12, 12)
        np.save(folder / f"{split}_maps.npy", maps.images.permute(0, 2, 3, 1).numpy())
        costs = maps.costs.reshape(cells).numpy().astype(np.float16)
        np.save(folder / f"{split}_vertex_weights.npy", costs)
        np.save(folder / f"{split}_shortest_paths.npy", maps.paths.reshape(cells).numpy())
    scale = replace(
        PAPER, training_maps=12, validation_maps=12, test_maps=12, epochs=1, map_tasks=2
    )
    study = Study(tmp_path / "out", replace(scale, map_steps=3), data=tmp_path / "warcraft")
    run = MapRun("MDMM", count=2)
    for job in in_order([run]):
        study.do(job)
    assert type(map_pipeline(study).predictor).__name__ == "PartialResNet"
    assert type(TrainVAE().load(study)).__name__ == "ConvolutionalVAE"
    assert torch.equal(map_data(study).tests.images, Terrain().generate(12, seed=52).images)
    assert study.table(run)["task"].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"data was .*, is None"):
        Study(tmp_path / "out", replace(scale, map_steps=3))
