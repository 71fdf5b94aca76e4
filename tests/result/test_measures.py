"""The measures of the field, each against another computation of it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import median_abs_deviation, norm
from sklearn.ensemble import IsolationForest
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt._typing import Array
from cfopt.engine.progress import Progress
from cfopt.errors import InputError
from cfopt.problems import Finite, GridShortestPath
from cfopt.result.metrics import Stopwatch, evaluate, evaluate_rows

#: Features of very different sizes, the last one nearly always 0.
SCALE = np.array([1.0, 10.0, 0.1, 3.0])


def known_contexts(count: int = 60) -> Array:
    known = normal(count, 4, seed=5).numpy() * SCALE
    known[: count - 10, 3] = 0.0
    return known


@pytest.fixture(scope="module")
def pipeline() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    layer = random_linear(4, problem.num_costs, bias=5.0)
    with torch.no_grad():
        layer.weight /= torch.from_numpy(SCALE)
    return cfopt.Pipeline(layer, problem)


@pytest.fixture(scope="module")
def found(pipeline: cfopt.Pipeline) -> cfopt.Explanation:
    """Answers that are not the closest: some of their changes are not needed."""
    x0 = torch.from_numpy(known_contexts(8)[-8:])
    wanted = another(pipeline, x0)
    features = cfopt.Features(scale=SCALE.tolist())
    search = cfopt.MDMM(max_steps=2000)
    return cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), features=features, search=search)


def valid_rows(e: cfopt.Explanation) -> list[int]:
    rows = [k for k, status in enumerate(e.status) if status == "valid"]
    assert len(rows) >= 3
    return rows


def best_paths(pipeline: cfopt.Pipeline, x: Array) -> tuple[Array, Array]:
    """The value of every path and the paths, by listing them."""
    paths = pipeline.problem.decisions()
    assert paths is not None
    layer = pipeline.predictor
    costs = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    return costs @ paths.numpy().T, paths.numpy()


def explains(pipeline: cfopt.Pipeline, x: Array, wanted: Array) -> bool:
    values, paths = best_paths(pipeline, x[None])
    own = values[0, (paths == wanted).all(axis=1)][0]
    return bool(own <= values.min() + 1e-6 * abs(own))


def test_distances_are_those_of_scipy(found: cfopt.Explanation) -> None:
    known = known_contexts()
    table = evaluate_rows(found, reference=known)["distance"]
    spread = known.std(axis=0)
    median = median_abs_deviation(known, axis=0)
    assert median[3] == 0  # then the deviation counts
    median[3] = spread[3]
    span = known.max(axis=0) - known.min(axis=0)
    for row in valid_rows(found):
        before, after = found.x0[row].numpy(), found.x[row].numpy()
        for unit, name in (
            (1.0, ""),
            (spread, " in deviations"),
            (median, " in median deviations"),
        ):
            for metric, short in (
                ("cityblock", "L1"),
                ("euclidean", "L2"),
                ("chebyshev", "L-infinity"),
            ):
                away = cdist([before / unit], [after / unit], metric)[0, 0]
                assert table[f"{short}{name}"].iloc[row] == pytest.approx(away)
        gower = np.minimum(np.abs(after - before) / span, 1).mean()
        assert table["Gower"].iloc[row] == pytest.approx(gower)


def test_a_category_counts_as_one_feature_that_changes_or_not() -> None:
    days = pd.DataFrame({"rain": [0.0, 4.0, 2.0, 8.0], "day": ["Mon", "Sun", "Mon", "Sun"]})
    features = cfopt.Features(
        names=("rain", "day"), categories={"day": ("Mon", "Sun")}, upper={"rain": 8}
    )
    layer = torch.nn.Linear(3, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.1, 0.0, 3.0], [0.0, 2.0, 0.0]]))
        layer.bias.zero_()
    pipeline = cfopt.Pipeline(layer, Finite(np.eye(2)))
    e = cfopt.explain(
        days[:1], pipeline, cfopt.Absolute(torch.tensor([0.0, 1.0])), features=features
    )
    assert e.frame["day"].tolist() == ["Sun"]
    table = evaluate_rows(e, reference=days, pipeline=pipeline)
    rain = abs(e.frame["rain"].iloc[0] - 0.0)
    assert table["distance", "Gower"].iloc[0] == pytest.approx((rain / 8 + 1) / 2)
    assert table["sparsity", "changed features"].iloc[0] == 1 + (rain > 1e-6)


def test_redundant_features_are_those_that_can_be_put_back(
    found: cfopt.Explanation, pipeline: cfopt.Pipeline
) -> None:
    table = evaluate_rows(found, pipeline=pipeline)["sparsity"]
    counts = []
    for row in valid_rows(found):
        before, after = found.x0[row].numpy(), found.x[row].numpy()
        wanted = found.alternative[row].numpy()
        assert explains(pipeline, after, wanted)
        back = [np.where(np.arange(4) == j, before, after) for j in range(4)]
        counts.append(sum(explains(pipeline, x, wanted) for x in back))
        assert table["redundant features"].iloc[row] == counts[-1]
        assert table["changed features"].iloc[row] == (np.abs(after - before) > 1e-6).sum()
    assert max(counts) > 0


def outlier_factor(x: Array, known: Array, k: int) -> float:
    """The definition, point by point."""

    def reach(of: Array, among: Array) -> tuple[Array, Array]:
        away = np.linalg.norm(among - of, axis=1)
        order = away.argsort(kind="stable")[:k]
        return order, away

    def others(j: int) -> Array:
        return np.delete(known, j, axis=0)

    k_distance = [np.sort(np.linalg.norm(others(j) - known[j], axis=1))[k - 1] for j in range(60)]

    def density(of: Array, own: int | None) -> float:
        _, away = reach(of, known)
        if own is not None:
            away[own] = np.inf
        order = away.argsort(kind="stable")[:k]
        return 1 / float(np.mean([max(away[j], k_distance[j]) for j in order]))

    order, _ = reach(x, known)
    return float(np.mean([density(known[j], j) for j in order])) / density(x, None)


def test_plausibility_is_what_the_definitions_say(
    found: cfopt.Explanation, pipeline: cfopt.Pipeline
) -> None:
    known = known_contexts()
    spread = known.std(axis=0)

    def density(x: torch.Tensor) -> torch.Tensor:
        return -0.5 * (x / torch.from_numpy(SCALE)).square().sum(dim=1)

    table = evaluate_rows(found, pipeline=pipeline, reference=known, nearest=3, density=density)
    plausible = table["plausibility"]
    forest = IsolationForest(random_state=0).fit(known)
    values, paths = best_paths(pipeline, known)
    taken = paths[values.argmin(axis=1)]
    for row in valid_rows(found):
        x = found.x[row].numpy()
        factor = plausible["local outlier factor"].iloc[row]
        assert factor == pytest.approx(outlier_factor(x / spread, known / spread, 20))
        assert plausible["isolation score"].iloc[row] == pytest.approx(
            -forest.score_samples(x[None])[0]
        )
        same = (taken == found.alternative[row].numpy()).all(axis=1)
        away = np.sort(np.linalg.norm((known[same] - x) / spread, axis=1))[:3]
        got = plausible["distance to 3 known that explain"].iloc[row]
        assert got == pytest.approx(away.mean()) if same.any() else np.isnan(got)
        assert plausible["log-density"].iloc[row] == pytest.approx(-0.5 * ((x / SCALE) ** 2).sum())


def test_the_share_under_noise_is_that_of_a_half_space(pipeline: cfopt.Pipeline) -> None:
    x0 = torch.from_numpy(known_contexts(3)[-3:])
    wanted = another(pipeline, x0)
    features = cfopt.Features(immutable=[2])
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), features=features, margin=0.002)
    known = known_contexts()
    table = evaluate_rows(e, pipeline=pipeline, reference=known, noise=0.02, draws=2000)
    layer = pipeline.predictor
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    for row in valid_rows(e):
        x = e.x[row].numpy()
        theta = weight @ x + bias
        y0, y = e.factual[row].numpy(), wanted[row].numpy()
        # The margin is a fraction of the alternative's value, which is positive here.
        direction = y - y0 + 0.002 * y
        assert theta @ y > 0
        slope = weight.T @ direction * known.std(axis=0) * 0.02
        slope[2] = 0.0  # locked
        share = norm.cdf(-(theta @ direction) / np.linalg.norm(slope))
        got = table["robustness", "valid under noise of 0.02"].iloc[row]
        assert abs(got - share) < 4 * np.sqrt(0.25 / 2000)


def test_the_share_under_refits_is_counted_by_their_own_decisions(
    found: cfopt.Explanation, pipeline: cfopt.Pipeline
) -> None:
    refits = []
    for seed in range(6):
        layer = torch.nn.Linear(4, 12).double()
        noise = normal(12, 4, seed=seed) / torch.from_numpy(SCALE)
        with torch.no_grad():
            layer.weight.copy_(pipeline.predictor.weight + 0.5 * noise)
            layer.bias.copy_(pipeline.predictor.bias)
        refits.append(cfopt.Pipeline(layer, pipeline.problem))
    shares = evaluate_rows(found, refits=refits)["robustness", "valid under refits"]
    for row in valid_rows(found):
        x, wanted = found.x[row].numpy(), found.alternative[row].numpy()
        assert shares.iloc[row] == np.mean([explains(one, x, wanted) for one in refits])
    assert 0 < shares.mean() < 1


def test_regret_before_and_after_is_what_all_paths_say(
    found: cfopt.Explanation, pipeline: cfopt.Pipeline
) -> None:
    table = evaluate_rows(found)["regret"]
    for row in valid_rows(found):
        for when, x in (("before", found.x0[row]), ("after", found.x[row])):
            values, paths = best_paths(pipeline, x.numpy()[None])
            best = values.min()
            for who, y in (("factual", found.factual), ("alternative", found.alternative)):
                own = values[0, (paths == y[row].numpy()).all(axis=1)][0]
                assert table[f"of the {who} {when}"].iloc[row] == pytest.approx(
                    (own - best) / abs(best), abs=1e-9
                )


def test_outcomes_and_proofs_are_counted_by_status(pipeline: cfopt.Pipeline) -> None:
    x0 = torch.from_numpy(known_contexts(6)[-6:])
    x0[0] = torch.nan
    own = pipeline.decide(x0[1:2])[0]
    features = cfopt.Features(lower=(x0 - 1e-6)[1:].amin(0).tolist(), upper=x0[1:].amax(0).tolist())
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(own), features=features)
    table, summary = evaluate_rows(e), evaluate(e)
    statuses = ("valid", "already valid", "best effort", "proved infeasible", "rejected")
    for status in statuses:
        expected = [float(one == status) for one in e.status]
        assert table["outcome", status].tolist() == expected
        assert summary.loc[("outcome", status), "mean"] == np.mean(expected)
    assert summary.loc[("outcome", "explained"), "mean"] == e.valid.double().mean()
    assert e.status[0] == "rejected"
    assert e.status[1] == "already valid"
    proved = table["proof", "proved"]
    assert np.isnan(proved.iloc[0])
    assert proved.iloc[1:].tolist() == [
        float(e.optimal[k] or e.status[k] == "proved infeasible") for k in range(1, 6)
    ]
    assert np.isnan(table["distance", "L2"].iloc[1])


def test_the_summary_is_that_of_the_rows(found: cfopt.Explanation) -> None:
    table, summary = evaluate_rows(found), evaluate(found)
    assert summary.index.tolist() == table.columns.tolist()
    steps = found.steps.double().numpy()
    line = summary.loc[("effort", "steps")]
    assert line["rows"] == len(found)
    assert line["mean"] == pytest.approx(steps.mean())
    assert line["median"] == pytest.approx(np.median(steps))
    assert line["95%"] == pytest.approx(np.quantile(steps, 0.95))


def test_diversity_compares_each_two_options(pipeline: cfopt.Pipeline) -> None:
    x0 = torch.from_numpy(known_contexts(6)[-6:])
    wanted = another(pipeline, x0)
    features = cfopt.Features(scale=SCALE.tolist())
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), features=features, options=3)
    assert e.options is not None
    known = known_contexts()
    table = evaluate_rows(e, reference=known)["diversity"]
    several = 0
    for row in valid_rows(e):
        options = [x for x, ok in zip(e.options[row].x, e.options[row].valid, strict=True) if ok]
        assert table["options"].iloc[row] == len(options)
        if len(options) < 2:
            continue
        several += 1
        moved = [((x - x0[row]).abs() > 1e-6 * x0[row].abs().clamp(min=1)).numpy() for x in options]
        away, other = [], []
        for j in range(len(options)):
            for k in range(j):
                gap = (options[j] - options[k]).numpy() / known.std(axis=0)
                away.append(np.sqrt((gap**2).sum()))
                shared = (moved[j] & moved[k]).sum() / (moved[j] | moved[k]).sum()
                other.append(1 - shared)
        got = table["distance between options in deviations"].iloc[row]
        assert got == pytest.approx(np.mean(away))
        assert table["difference of changed features"].iloc[row] == pytest.approx(np.mean(other))
    assert several >= 3


def test_contexts_of_another_shape_are_refused(found: cfopt.Explanation) -> None:
    with pytest.raises(InputError, match=r"of shape \(4,\).*got reference of shape \(5, 3\)"):
        evaluate(found, reference=np.zeros((5, 3)))
    with pytest.raises(InputError, match="draws >= 1"):
        evaluate(found, draws=0)


def test_the_certified_radius_is_that_of_a_half_space(pipeline: cfopt.Pipeline) -> None:
    x0 = torch.from_numpy(known_contexts(4)[-4:])
    wanted = another(pipeline, x0)
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), margin=0.01)
    radius = evaluate_rows(e, pipeline=pipeline)["robustness", "certified radius"]
    layer = pipeline.predictor
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    for row in valid_rows(e):
        direction = (wanted[row] - e.factual[row]).numpy()
        theta = weight @ e.x[row].numpy() + bias
        length = -(theta @ direction) / np.linalg.norm(weight.T @ direction)
        assert length > 0
        assert radius.iloc[row] == pytest.approx(length)
    # "At most" is the distance of an exception that was found: it certifies nothing.
    kinds = tuple("at most" if k else "exact" for k in range(len(e)))
    assert e.radii is not None
    some = replace(e, radii=replace(e.radii, kind=kinds))
    assert evaluate_rows(some)["robustness", "certified radius"].notna().sum() == 1


def test_a_stopwatch_knows_when_rows_were_finished(
    pipeline: cfopt.Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    x0 = torch.from_numpy(known_contexts(6)[-6:])
    wanted = another(pipeline, x0)
    wanted[2] = pipeline.decide(x0[2:3])[0]  # explained by the context itself, without a search
    now, seen = 100.0, {}
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    watch = Stopwatch()

    def note(progress: Progress) -> None:
        nonlocal now
        now += 1.0
        watch(progress)
        if progress.finished is not None:
            seen.update(dict.fromkeys(progress.finished.rows.tolist(), now - 100.0))

    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=cfopt.MDMM(), on_progress=note)
    table = evaluate_rows(e, watch=watch)["effort"]
    seconds = table["seconds until the answer"]
    assert e.status[2] == "already valid"
    assert np.isnan(seconds.iloc[2])
    assert [seconds.iloc[row] for row in valid_rows(e)] == [seen[row] for row in valid_rows(e)]
    first = table["seconds until the first answer"]
    assert first.notna().sum() == 1
    assert first.min() == seconds.min()
