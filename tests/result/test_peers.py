"""The comparison with other libraries: what they are told, and how their answers are judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.peers import cases as cases_module
from benchmarks.peers.comparison import Answers, judged
from benchmarks.peers.environments import PEERS, SCRIPTS

from cfopt._typing import Array

LEAST = {"L1": np.full(4, 1e-3), "L2": np.full(4, 1e-3)}


@pytest.fixture(scope="module")
def cases() -> dict[str, cases_module.Case]:
    return {case.name: case for case in cases_module.cases(rows=4, refits=2)}


def inside() -> Any:
    """The module that other libraries are told by, which runs without cfopt."""
    spec = importlib.util.spec_from_file_location("case", SCRIPTS / "case.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["linear", "trees", "network"])
def test_other_libraries_see_the_model_that_is_explained(
    name: str, cases: dict[str, cases_module.Case], tmp_path: Path
) -> None:
    case = cases[name]
    case.write(tmp_path)
    told = inside().Case(tmp_path)
    x = np.concatenate([case.known, case.rows])
    scores = case.model.predict(x)
    chance = told.classifier.predict_proba(x)
    assert np.allclose(np.log(chance[:, 0] / chance[:, 1]), scores, atol=1e-5)
    assert np.array_equal(told.classifier.predict(x), scores <= 0)
    assert (case.model.predict(case.rows) > 0).all()  # all of them fly
    assert np.array_equal(told.rows, case.rows)


def answers(case: cases_module.Case) -> Array:
    """Two that are right, one that is not, and none."""
    scores = case.model.predict(case.known)
    train, fly = case.known[scores <= 0], case.known[scores > 0]
    return np.stack([train[0], train[1], fly[0], np.full(len(train[0]), np.nan)])


def test_answers_of_others_are_verified_and_measured(cases: dict[str, cases_module.Case]) -> None:
    case = cases["trees"]
    x = answers(case)
    said, nothing = np.array([True, False, True, False]), np.full(4, np.nan)
    line = judged(case, Answers("theirs", x, np.arange(4.0), said, nothing), LEAST)
    assert (line["rows"], line["answered"], line["valid"], line["proved"]) == (4, 3, 2, 1)
    change = np.abs(x - case.rows)[:2] / case.known.std(axis=0)
    assert line["L1 / least"] == pytest.approx(np.median(change.sum(axis=1)) / 1e-3)
    assert line["L2 / least"] == pytest.approx(np.median(np.sqrt((change**2).sum(axis=1))) / 1e-3)
    assert line["changed"] == pytest.approx((change > 0).sum(axis=1).mean())
    held = [
        [one.predictor(torch.from_numpy(x[k : k + 1]))[0, 0] <= 0 for one in case.refits]
        for k in range(2)
    ]
    assert line["under refits"] == pytest.approx(np.mean(held))
    assert line["ms"] == pytest.approx(1500.0)


def test_an_answer_nearer_than_what_is_proved_ends_the_comparison(
    cases: dict[str, cases_module.Case],
) -> None:
    case = cases["trees"]
    none, nothing = np.zeros(4, dtype=bool), np.full(4, np.nan)
    theirs = Answers("theirs", answers(case), np.zeros(4), none, nothing)
    with pytest.raises(SystemExit, match="theirs undercuts a proved least L2"):
        judged(case, theirs, LEAST | {"L2": np.full(4, 1e3)})


def test_every_peer_has_a_script_and_a_fixed_version() -> None:
    for peer in PEERS:
        assert (SCRIPTS / peer.script).is_file()
        assert "==" in peer.package
