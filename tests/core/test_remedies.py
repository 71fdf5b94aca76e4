"""What would help rows that limits make impossible, against all sets of limits."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.problems import GridShortestPath
from cfopt.question.relaxing import single_limits, without


@pytest.fixture(scope="module")
def pipeline() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(4, problem.num_costs, bias=4.0), problem)


_GIVEN = (
    {"immutable": ["a", "b", "c"], "lower": {"d": -0.5}, "upper": {"d": 1.0}},
    {"max_changes": 1, "only_increase": ["a", "b", "c"], "lower": -1.0, "upper": 1.0},
    {"immutable": ["a"], "only_increase": ["b"], "only_decrease": ["c"], "upper": {"d": 1.0}},
    {
        "immutable": ["a", "b"],
        "linear": [cfopt.LinearLimit({"c": 1.0, "d": 1.0}, upper=1.0)],
        "lower": {"c": -1.0, "d": -1.0},
    },
)


@pytest.mark.parametrize("given", _GIVEN)
def test_a_remedy_lifts_as_few_limits_as_any_set_that_helps(pipeline, given) -> None:
    features = cfopt.Features(["a", "b", "c", "d"], **given)
    x0 = normal(4, 4).clamp(-0.4, 0.9)
    wanted = cfopt.Absolute(pipeline.decide(3 * normal(4, 4, seed=5)))
    e = cfopt.remedies(cfopt.explain(x0, pipeline, wanted, features=features), pipeline)
    assert len(e.remedy) == 4
    limits, helped = single_limits(features, 4), 0
    for row in range(4):
        remedy = e.remedy[row]
        if e.status[row] != "proved infeasible":
            assert remedy is None
            continue
        assert remedy is not None
        assert remedy.answer.valid.all()
        assert remedy.smallest
        helped += 1
        alone = wanted[torch.tensor([row])]
        for count in range(1, len(remedy.limits)):
            for lifted in combinations(limits, count):
                other = without(features, 4, lifted)
                one = cfopt.explain(x0[row : row + 1], pipeline, alone, features=other)
                assert one.status[0] == "proved infeasible"
    assert helped


def test_remedies_are_said_and_kept(pipeline) -> None:
    features = cfopt.Features(["a", "b", "c", "d"], immutable=["a", "b", "c", "d"])
    x0 = normal(1, 4)
    wanted = cfopt.Absolute(pipeline.decide(3 * normal(1, 4, seed=5)))
    e = cfopt.explain(x0, pipeline, wanted, features=features)
    assert e.remedy == ()
    e = cfopt.remedies(e, pipeline)
    assert e.remedy[0] is not None
    assert "could change" in e.remedy[0].limits[0]
    assert "But if" in e.summary()
    assert "tried and verified" in e.summary()
    again = cfopt.Explanation.from_json(e.to_json(), e.problem)
    assert again.remedy[0] is not None
    assert again.remedy[0].limits == e.remedy[0].limits
    assert torch.equal(again.remedy[0].answer.x, e.remedy[0].answer.x)


def test_the_report_says_what_would_help(pipeline, tmp_path) -> None:
    from cfopt.report import write_report

    held = cfopt.Features(["a", "b", "c", "d"], immutable=["a", "b", "c", "d"])
    x0 = normal(1, 4)
    wanted = cfopt.Absolute(pipeline.decide(3 * normal(1, 4, seed=5)))
    no = cfopt.remedies(cfopt.explain(x0, pipeline, wanted, features=held), pipeline)
    about = {"title": "Two rows", "seconds": 1.0, "settings": {}}
    said = write_report(no, tmp_path / "no.html", **about).read_text()
    assert "But if a could change" in said
