"""What `benchmarks.earlier` notes of questions, and what it makes of two trees' answers."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch
from benchmarks import __main__ as groups
from benchmarks import earlier, earlier_inside
from benchmarks.earlier_inside import Listener

import cfopt
from cfopt.problems import Finite


def _pipeline() -> cfopt.Pipeline:
    layer = torch.nn.Linear(1, 2).double()
    weights = {"weight": torch.tensor([[1.0], [0.0]]), "bias": torch.tensor([1.0, 2.0])}
    layer.load_state_dict(weights)
    return cfopt.Pipeline(layer, Finite(torch.eye(2)))


def test_the_same_question_asked_again_counts_once() -> None:
    listener, pipeline = Listener(), _pipeline()
    ask = listener.listening(cfopt.explain)
    x0, criterion = torch.tensor([[0.0], [-3.0]]).double(), cfopt.Absolute(torch.tensor([0.0, 1.0]))
    for _ in range(2):
        ask(x0, pipeline, criterion, features=cfopt.Features(scale=[2.0]))
    # Impossible: the price may not rise.
    ask(x0, pipeline, criterion, features=cfopt.Features(upper=0.0))
    listener("a table", [])
    plain, bounded = listener.asked.values()
    assert plain.name == "a table: Finite, 1 features: Absolute"
    assert plain.found == [True, True]
    assert plain.proved == [True, True]
    assert plain.distance == pytest.approx([0.5, 2.0])  # to x = 1, in units of 2
    assert bounded.found == [False, False]
    assert bounded.proved == [True, True]


def _answers(seconds: float, found: list[bool], distance: list[float]) -> earlier.Answers:
    asked = earlier_inside.Asked("a question", seconds, found, [False] * len(found), distance)
    return {"first": asdict(asked)}


def test_two_trees_are_compared_by_what_both_found_and_by_their_least_times() -> None:
    before = _answers(2.0, [True, True, False], [1.0, 2.0, 0.0])
    now = _answers(1.0, [True, False, True], [1.5, 0.0, 7.0])
    again = _answers(3.0, [True, False, True], [1.5, 0.0, 7.0])
    alone = _answers(1.0, [True], [1.0])["first"]
    line, others = earlier.lines([[before, now | {"new": alone}], [before, again]])
    assert (line["CPU s before"], line["now"], line["ratio"]) == (2.0, 1.0, 0.5)
    assert (line["rows"], line["found"], line["proved"]) == (3, "2, 2", "0, 0")
    assert (line["distance now / before"], line["farther by 0.01%"]) == (1.5, 1)
    assert others["rows"] == 1


def test_a_group_whose_library_is_another_one_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("explain", "explain_costs", "explain_group"):
        monkeypatch.setattr(cfopt, name, getattr(cfopt, name))  # they are given back afterwards

    def newer(record: object) -> None:
        cfopt.explain(torch.zeros(1, 1).double(), _pipeline(), cfopt.Epsilon(0.5), wishes=3)

    monkeypatch.setitem(groups.GROUPS, "newer", newer)
    found = earlier_inside.run(["newer", "unknown"])
    assert "wishes" in found["newer"]
    assert "tables, roads, predictors" in found["unknown"]
