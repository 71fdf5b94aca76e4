"""A criterion that is added in one file, `near_best.py`, works wherever a shipped one does."""

from __future__ import annotations

import json
from pathlib import Path

import near_best
import pytest
import torch
from driving import configure, explained, served
from near_best import NearBest
from tests.pipelines import another, normal
from tests.serving import serving
from torch import Tensor

import cfopt
from cfopt.question import Criterion
from cfopt.testing import CriterionContract
from cfopt.web.process import Source


class TestNearBest(CriterionContract):
    def criterion(self, alternative: Tensor) -> Criterion:
        return NearBest(alternative, tolerance=0.37)

    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        return alternative <= best + 0.37 * best.abs()


def _excess(e: cfopt.Explanation, listed: Tensor) -> Tensor:
    """By what fraction the alternative is worse than the best, over all listed decisions."""
    best = (e.costs @ listed.T).min(1).values
    return ((e.costs * e.alternative).sum(1) - best) / best.abs()


def test_the_tolerance_that_is_asked_for_is_the_one_that_is_searched_for(
    grid: cfopt.Pipeline,
) -> None:
    x0 = normal(6, 4)
    wanted, listed = another(grid, x0), grid.problem.decisions()
    assert listed is not None
    distances = []
    for tolerance in (0.0, 0.1, 0.5, 2.0):
        e = cfopt.explain(x0, grid, NearBest(wanted, tolerance))
        assert e.valid.all()
        assert (_excess(e, listed) <= tolerance + 1e-5).all()
        moved = e.distance > 0
        assert (_excess(e, listed)[moved] >= tolerance - 0.02).all()  # no farther than needed
        distances.append(e.distance.mean())
    assert distances[0] > distances[1] > distances[2]
    exact = cfopt.explain(x0, grid, cfopt.Absolute(wanted))
    assert (cfopt.explain(x0, grid, NearBest(wanted, 0.0)).loss >= exact.loss - 1e-6).all()


def test_it_speaks_for_itself_in_summary_and_picture(grid: cfopt.Pipeline, tmp_path: Path) -> None:
    x0 = normal(1, 4)
    e = cfopt.explain(x0, grid, NearBest(another(grid, x0), 0.2))
    assert e.summary().startswith("When would the alternative have been within 20% of the best?")
    assert "in this context the alternative is within 20% of the best" in e.message[0]
    figure = e.plot(tmp_path / "why.png")
    assert (tmp_path / "why.png").is_file()
    assert any("within 20% of the best" in text.get_text() for text in figure.texts)
    back = cfopt.Explanation.from_json(e.to_json())
    assert isinstance(back.criterion, NearBest)
    assert back.criterion.tolerance == 0.2


def test_a_file_of_an_unknown_criterion_says_what_is_missing(grid: cfopt.Pipeline) -> None:
    x0 = normal(1, 4)
    content = json.loads(cfopt.explain(x0, grid, NearBest(another(grid, x0))).to_json())
    content["criterion"]["kind"] = "nearly"
    with pytest.raises(cfopt.InputError, match=r"no criterion 'nearly'.* Import the"):
        cfopt.Explanation.from_json(json.dumps(content))


def test_it_can_be_configured_reported_and_served(example: Path) -> None:
    line = 'class = "near_best:NearBest"\ntolerance = 0.05'
    configure(example, "criterion", "near_best", line)
    e, html = explained(example)
    assert isinstance(e.criterion, near_best.NearBest)
    assert e.criterion.tolerance == 0.05
    listed = cfopt.problems.GridShortestPath(3, 3).decisions()
    assert listed is not None
    assert e.valid.all()
    assert (_excess(e, listed) <= 0.05 + 1e-5).all()
    assert "have been within 5% of the best?" in html
    assert "would have been within 5% of the best" in html
    assert "the best route" not in html
    answer = served(example, {"kind": "nearbest", "alternative": {"row": 0}, "tolerance": 0.5})
    assert "within 50% of the best" in answer.result["question"]


def test_a_server_with_workers_offers_and_answers_it(example: Path) -> None:
    configure(example, "criterion", "near_best", 'class = "near_best:NearBest"')
    with serving(Source(example, True)) as client:
        kinds = {one["kind"]: one for one in client.get("/api/pipelines/own").json()["questions"]}
        assert kinds["nearbest"]["title"] == "When would mine have been good enough?"
        assert kinds["nearbest"]["sliders"][0]["name"] == "tolerance"
        asked = {"pipeline": "own", "context": {"row": 1}}
        question = {"kind": "nearbest", "alternative": {"row": 0}, "tolerance": 0.01}
        done = client.explain(**asked, question=question)
        assert done["status"] == "done"
        assert done["result"]["valid"]
        assert "within 1% of the best" in done["result"]["question"]
        found = client.get(f"/api/tasks/{done['id']}/result.json").text
        e = cfopt.Explanation.from_json(found)
        assert isinstance(e.criterion, NearBest)
        assert e.criterion.tolerance == 0.01
        for wrong, said in (
            ({"tolerance": "much"}, "tolerance needs a number"),
            ({"tolerence": 0.1}, "has no tolerence"),
        ):
            answer = client.post("/api/explain", json=asked | {"question": question | wrong})
            assert answer.status_code == 422
            assert said in answer.json()["detail"]


def test_words_that_are_not_overridden_state_the_formula() -> None:
    class Bare(cfopt.Criterion):
        def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
            return optimum - factual

    bare = Bare()
    assert bare[torch.tensor([0])] is bare
    said = [bare.ask(), bare.answer(False, False), bare.miss(1.0, cfopt.Sense.MIN)]
    assert all("h" in one and "<= 0" in one for one in said)
    assert not any("alternative" in one or "best" in one for one in said)
