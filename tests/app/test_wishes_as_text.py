"""Wishes in configurations and in requests over HTTP: both say what Python says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cfopt
from cfopt import AtLeast, Avoids, Condition, Uses
from cfopt.app.criterion_source import CriterionSource
from cfopt.app.question import Asked
from cfopt.app.schema import TableError
from cfopt.errors import InputError
from cfopt.fleet.source import ContextSource
from cfopt.problems import GridShortestPath
from cfopt.storage.rows import RowsInMemory
from cfopt.web.questions import criterion_of
from cfopt.web.requests import Question

GUIDE = Path(__file__).parents[2] / "docs" / "questions.md"
GRID = GridShortestPath(4, 4)
MEANT = (
    Uses("G")
    & Avoids("A-B")
    & AtLeast(2, ["C", "H", "L"])
    & Condition({"A-E": 1, "E-F": 1}, upper=1)
)


def read(table: dict[str, Any]) -> CriterionSource:
    source = CriterionSource.of(table, SimpleNamespace(context={"folder": Path(), "trust": None}))
    assert source is not None
    return source


def same_plans(criterion: cfopt.Criterion, foil: cfopt.Foil) -> bool:
    assert isinstance(criterion, cfopt.Absolute)
    listed = GRID.decisions().numpy()
    met = [one.conditions(GRID).met(listed).tolist() for one in (criterion.foil, foil)]
    return met[0] == met[1]


def test_the_table_of_the_guide_is_the_wish_that_it_describes() -> None:
    toml = GUIDE.read_text().split("```toml\n")[1].split("```")[0]
    source = read(tomllib.loads(toml)["criterion"])
    pipeline = cfopt.Pipeline(torch.nn.Linear(2, GRID.num_costs), GRID)
    rows = RowsInMemory("three", np.zeros((3, 2)))
    contexts = ContextSource.of(rows, pipeline, cfopt.Features())
    criterion = Asked(source, pipeline, contexts, [0, 1]).criterion(range(2))
    assert same_plans(criterion, MEANT)
    assert criterion.ask().startswith("Why not through G, without A-B")


def test_a_request_says_the_same() -> None:
    asked = Question.model_validate(
        {
            "kind": "absolute",
            "uses": ["G"],
            "avoids": [0],
            "at_least": [{"count": 2, "of": ["C", "H", "L"]}],
            "conditions": [{"coefficients": [["A-E", 1], ["E-F", 1]], "upper": 1}],
        }
    )
    assert same_plans(criterion_of(asked, None, GRID), MEANT)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"kind": "absolute", "uses": "G"}, "list of names"),
        ({"kind": "absolute", "uses": ["G"], "decision_of_row": 1}, "exclude each other"),
        ({"kind": "absolute", "at_least": {"count": 1}}, "count and of"),
        ({"kind": "absolute"}, "needs exactly one of"),
        ({"kind": "epsilon", "epsilon": 0.1, "uses": ["G"]}, "There is no key 'uses'"),
    ],
)
def test_mistakes_in_a_table_are_explained(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(TableError, match=problem):
        read(table)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"kind": "absolute"}, "an alternative or a wish"),
        ({"kind": "epsilon", "epsilon": 0.1, "uses": ["G"]}, "no alternative"),
        ({"kind": "absolute", "uses": ["Gg"]}, "There is no entry 'Gg'"),
    ],
)
def test_mistakes_in_a_request_are_explained(asked: dict[str, Any], problem: str) -> None:
    question = Question.model_validate(asked)
    with pytest.raises(InputError, match=problem):
        criterion_of(question, None, GRID)
