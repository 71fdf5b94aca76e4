"""Answers that were only tried: a status of their own, listed with their answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pipelines import normal

import cfopt
from cfopt.fleet.table import to_table
from cfopt.problems import GridShortestPath
from cfopt.report import write_report
from cfopt.report.tally import Tally
from cfopt.report.whole import lines

WEIGHT = normal(12, 3, seed=15).numpy()


class Counting:
    """A function without a gradient that counts the contexts that it is asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked += len(x)
        return np.tanh(x @ WEIGHT.T) + 3


@pytest.fixture(scope="module")
def tried() -> cfopt.Explanation:
    pipeline = cfopt.Pipeline(Counting(), GridShortestPath(3, 3))
    x0 = normal(2, 3, seed=16)
    wanted = pipeline.decide(normal(2, 3, seed=17))
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), robust=cfopt.Ball(0.02))
    assert set(e.status) == {"sampled"}
    return e


def test_the_message_says_at_how_many_points_it_was_tried() -> None:
    model = Counting()
    pipeline = cfopt.Pipeline(model, GridShortestPath(3, 3))
    x0 = normal(1, 3, seed=16)
    wanted = pipeline.decide(x0)
    model.asked = 0
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), robust=cfopt.Ball(0.001))
    assert e.status == ("sampled",)
    points = int(e.message[0].split("every one of ")[1].split(" points")[0].replace(",", ""))
    assert 4000 < points <= model.asked


def test_a_sampled_answer_is_not_valid_and_is_an_answer(tried: cfopt.Explanation) -> None:
    assert not tried.valid.any()
    assert not tried.optimal.any()
    assert tried.answered.all()
    again = cfopt.Explanation.from_json(tried.to_json())
    assert again.status == tried.status
    assert torch.equal(again.x, tried.x)
    table = tried.to_dataframe()
    assert table["status"].tolist() == ["sampled", "sampled"]
    assert not table["valid"].any()
    assert to_table(tried, [0, 1])["status"].to_pylist() == ["sampled", "sampled"]


def test_everything_that_lists_answers_lists_it(tried: cfopt.Explanation, tmp_path: Path) -> None:
    assert "2 sampled" in tried.summary()
    assert "Distance of what was found" in tried.summary()
    assert tried[0].summary().splitlines()[1].startswith("Sampled: ")
    tally = Tally()
    tally.add(tried, np.arange(2))
    assert tally.answered == 2
    assert "2 sampled" in lines(tally)[0]
    path = write_report(tried, tmp_path / "r.html", title="t", seconds=1.0, settings={})
    page = path.read_text()
    assert "2 answered (2 only at the points that were tried)" in page
    assert "Found, not proved" in page
    assert "which does not prove it" in page
    measured = cfopt.metrics.evaluate_rows(tried)
    assert measured["outcome", "sampled"].tolist() == [1.0, 1.0]
    assert measured["proof", "loss"].notna().all()


def test_predictors_are_a_finite_list_each_of_which_is_asked() -> None:
    pipeline = cfopt.Pipeline(Counting(), GridShortestPath(3, 3))
    x0 = normal(2, 3, seed=16)
    wanted = pipeline.decide(normal(2, 3, seed=17))
    robust = cfopt.Models([lambda x: np.tanh(x @ WEIGHT.T) + 3.1])
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), robust=robust)
    assert e.valid.all()
