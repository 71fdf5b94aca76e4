"""In which units changes count, and one distance on every surface that shows it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import cfopt
from cfopt.fleet.table import to_table
from cfopt.problems import Finite
from cfopt.question.scales import usual_changes
from cfopt.report import sentences, write_report
from cfopt.result.nearness import measured
from cfopt.web.catalogue import Title
from cfopt.web.presenter import explained
from cfopt.web.served import ServedPipeline
from cfopt.web.views import TableView

RNG = np.random.default_rng(0)
DAYS = pd.DataFrame(
    {
        "rain": RNG.gamma(2, 2, 120),  # mm
        "hour": RNG.uniform(6, 22, 120),
        "warmth": RNG.normal(15, 8, 120),  # degrees Celsius
        "holiday": RNG.random(120) < 0.2,
    }
)
COSTS = np.c_[
    20 + 3 * DAYS.rain + DAYS.hour,
    30 + DAYS.rain + 1.5 * DAYS.hour + 0.2 * DAYS.warmth - 4 * DAYS.holiday,
    45 + 0.2 * DAYS.hour - 0.3 * DAYS.warmth,
]
CHOICE = Finite(np.eye(3))
#: Metres, minutes and degrees Fahrenheit.
FACTOR, SHIFT = np.array([1e-3, 60, 1.8, 1]), np.array([0, 0, 32.0, 0])
MODELS = {
    "affine": LinearRegression(),
    "trees": RandomForestRegressor(4, max_depth=3, random_state=0, n_jobs=1),
    "network": MLPRegressor(hidden_layer_sizes=(5,), random_state=0, max_iter=200, solver="lbfgs"),
}


def in_other_units(days: pd.DataFrame) -> pd.DataFrame:
    return days.assign(rain=days.rain / 1000, hour=60 * days.hour, warmth=1.8 * days.warmth + 32)


def fitted(model: Any) -> tuple[Any, Any]:
    """A model of days, and the same function of days in other units."""
    first = make_pipeline(StandardScaler(), model).fit(DAYS, COSTS)
    second = deepcopy(first)
    scaler = second[0]
    scaler.mean_, scaler.scale_ = scaler.mean_ * FACTOR + SHIFT, scaler.scale_ * FACTOR
    return first, second


@pytest.mark.parametrize("near", [cfopt.L2(), cfopt.L1(), cfopt.LInf()], ids=["L2", "L1", "LInf"])
@pytest.mark.parametrize("name", MODELS)
def test_the_unit_of_a_column_changes_no_answer(name: str, near: cfopt.Proximity) -> None:
    found = []
    robust = cfopt.Ball(0.1) if name == "affine" else None
    asked = cfopt.Relative(np.array([0, 0, 1.0])) if robust else cfopt.Epsilon(0.1)
    for model, days in zip(fitted(MODELS[name]), (DAYS, in_other_units(DAYS)), strict=True):
        known = days.to_numpy(np.float64) if isinstance(near, cfopt.L2) else days
        given: dict[str, Any] = {"reference": known, "proximity": near, "robust": robust}
        found.append(cfopt.explain(known[:3], cfopt.Pipeline(model, CHOICE), asked, **given))
    before, after = found
    assert before.status == after.status
    assert before.valid.all()
    assert torch.allclose(before.distance, after.distance, rtol=1e-6)
    assert torch.allclose(before.radius, after.radius, rtol=1e-6, atol=1e-6, equal_nan=True)
    same, unit = before.x.numpy() * FACTOR + SHIFT, np.array(after.features.scales)
    assert np.allclose(after.x.numpy() / unit, same / unit, rtol=0, atol=1e-6)


def test_usual_changes_are_spreads_that_outliers_leave_alone() -> None:
    normal = RNG.normal(5, 3, 20_001)
    normal[:3] = 1e9, -1e9, np.nan
    columns = {
        "normal": (normal, 3.0),
        "seldom": (np.r_[np.zeros(20_000), 40.0], 40.0),  # two values: their difference
        "flag": (np.arange(20_001) % 2, 1.0),
        "counts": (np.r_[np.full(19_000, 2), np.arange(1_001) % 5], 4.0),  # quartiles agree: range
        "constant": (np.full(20_001, 7e5), 1.0),
        "rounding": (7e5 + 1e-7 * np.arange(20_001) % 3e-7, 1.0),
        "unknown": (np.full(20_001, np.inf), 1.0),
        "whole": (np.arange(20_001), 15_000 / 1.349 - 5_000 / 1.349),
    }
    known = torch.from_numpy(np.stack([values for values, _ in columns.values()], axis=1))
    expected = [unit for _, unit in columns.values()]
    assert usual_changes(known) == pytest.approx(expected, rel=0.02)
    assert usual_changes(known[:1]) is None


def test_scales_are_given_or_learned_from_known_contexts_and_else_the_summary_says_so() -> None:
    table = DAYS.assign(place=np.where(DAYS.rain > 4, "north", "south"))
    model = cfopt.Function(
        lambda days: np.c_[20 + 3 * days.rain, 30 + (days.place == "north"), 45 - days.hour],
        like=table,
    )

    def ask(**given: Any) -> cfopt.Explanation:
        search = cfopt.DerivativeFree(evaluations=100)
        pipeline = cfopt.Pipeline(model, CHOICE)
        return cfopt.explain(table[:1], pipeline, cfopt.Epsilon(0.1), search=search, **given)

    learned = ask(reference=table)
    quartiles = DAYS[["rain", "hour", "warmth"]].quantile([0.25, 0.75])
    usual = (quartiles.loc[0.75] - quartiles.loc[0.25]) / 1.349
    assert learned.features.usual == pytest.approx([*usual, 1.0, 1.0])
    assert learned.features.scales == pytest.approx([*usual, 1.0, 1.0, 1.0])  # north and south
    unit = "in units of each feature's usual change: its interquartile range"
    assert f"Distances are measured {unit}" in learned.summary()
    again = cfopt.Explanation.from_json(learned.to_json())
    assert again.features.scales == learned.features.scales
    assert torch.equal(again.distance, learned.distance)
    locked = ask(reference=table, features=cfopt.Features(immutable=["warmth", "holiday"]))
    assert locked.features.usual == learned.features.usual

    own = "Distances are measured in the features' own units. Pass reference="
    assert own in ask().summary()
    assert own in ask(reference=table[:1]).summary()  # in one context, nothing varies
    given = ask(reference=table, features=cfopt.Features(scale=[2.0, 3.0, 4.0, 1.0, 1.0]))
    assert given.features.usual is None
    assert "Distances are measured in units of the features' scales." in given.summary()
    raw = ask(reference=table, features=cfopt.Features(scale=[1.0] * 5))
    assert "measured" not in raw.summary()  # as it was asked for
    # Arrays without names: only where columns differ in size.
    layer = cfopt.Pipeline(nn.Linear(2, 3).double(), CHOICE)
    for sizes, said in (([1.0, 1.0], False), ([1e3, 1.0], True)):
        x = torch.tensor([[1.0, -0.5], [-2.0, 1.0]]).double() * torch.tensor(sizes)
        assert (own in cfopt.explain(x, layer, cfopt.Epsilon(0.1)).summary()) == said


def test_images_have_no_scales() -> None:
    x = torch.rand(8, 1, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    pipeline = cfopt.Pipeline(nn.Sequential(nn.Flatten(), nn.Linear(4, 3).double()), CHOICE)
    e = cfopt.explain(x[:2], pipeline, cfopt.Epsilon(0.1), reference=x)
    assert e.features.scales is None
    assert torch.allclose(e.distance, (e.x - e.x0).flatten(1).norm(dim=1))


def test_one_change_of_many_rows_counts_in_the_same_units() -> None:
    wanted, found = cfopt.Absolute(np.array([0, 0, 1.0])), []
    for model, days in zip(fitted(LinearRegression()), (DAYS, in_other_units(DAYS)), strict=True):
        pipeline = cfopt.Pipeline(model, CHOICE)
        found.append(cfopt.explain_group(days[:5], pipeline, wanted, reference=days))
    before, after = found
    assert before.optimal
    assert after.optimal
    assert after.distance == pytest.approx(before.distance, rel=1e-6)
    assert after.change.numpy() / FACTOR == pytest.approx(before.change.numpy(), abs=1e-6)
    assert f"Distance {before.distance:.3g}. " in before.summary().replace("\n", " ")


@pytest.mark.parametrize("near", [cfopt.L2(), cfopt.L1(), cfopt.LInf()], ids=["L2", "L1", "LInf"])
def test_one_answer_is_equally_far_on_every_surface(near: cfopt.Proximity, tmp_path: Path) -> None:
    pipeline, asked = cfopt.Pipeline(fitted(LinearRegression())[0], CHOICE), cfopt.Epsilon(0.1)
    given: dict[str, Any] = {"proximity": near, "reference": DAYS}
    e = cfopt.explain(DAYS[:1], pipeline, asked, options=2, **given)
    assert e.options is not None
    order = {cfopt.L2: 2, cfopt.L1: 1, cfopt.LInf: np.inf}[type(near)]

    def far(one: cfopt.Explanation) -> float:
        change = (one.x - one.x0)[0].numpy() / usual_changes(torch.tensor(DAYS.to_numpy(float)))
        return float(np.linalg.norm(change, order))

    first, second = far(e), far(e.options[0][1])
    said, other = f"{first:.3g}", f"{second:.3g}"
    assert float(e.distance[0]) == pytest.approx(first)
    assert float(e.loss[0]) == pytest.approx(first**2 if order == 2 else first)
    assert f"Distance {said}, in" in e.summary()
    assert f"Option 2, at distance {other}: " in e.summary()
    assert e.to_dataframe()["distance"].tolist() == pytest.approx([first, second])
    document = json.loads(e.to_json())
    assert document["rows"][0]["distance"] == pytest.approx(first)
    assert document["options"][0]["rows"][1]["distance"] == pytest.approx(second)
    table = to_table(e, [0])
    assert table["distance"].to_pylist() == pytest.approx([first, second])
    measures = cfopt.metrics.evaluate_rows(e, reference=DAYS)
    assert measures["distance", "as asked"].tolist() == pytest.approx([first])

    curve = cfopt.trade_off(DAYS[:1], pipeline, asked, **given)
    assert curve.distances(0)[-1] == pytest.approx(first)
    assert curve.to_dataframe()["distance"].tolist()[-1] == pytest.approx(first)
    assert f"at distance {said}, and none nearer" in curve.summary()
    axes = curve.plot().axes[0]
    assert axes.lines[0].get_ydata()[0] == pytest.approx(first)
    group = cfopt.explain_group(DAYS[:1], pipeline, asked, **given)
    assert group.distance >= first * (1 - 1e-9)
    assert group.distance == pytest.approx(float(group.explanation.distance[0]))

    html = write_report(e, tmp_path / "r.html", title="", seconds=1.0, settings={}).read_text()
    assert float(re.findall('data-distance="([^"]+)"', html)[0]) == pytest.approx(first)
    assert f"It is {other} away." in html
    assert f"measured {measured(e)}" in html.replace("&#39;", "'")
    near_miss = replace(e, bound=e.loss / 4)
    assert f"this one is {first:.4g} away" in sentences.proof(near_miss)[0]
    view = TableView(e.features, 4, torch.float64)
    served = ServedPipeline(Title("", "", "table", ""), pipeline, e.x0, ("0",), view)
    shown = explained(served, e)
    assert shown["distance"] == pytest.approx(first)
    assert shown["options"][0]["distance"] == pytest.approx(second)
    for words in (e.summary(), curve.summary(), group.summary(), axes.get_ylabel()):
        assert shown["measured"] in words
