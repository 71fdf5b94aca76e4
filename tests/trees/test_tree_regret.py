"""Regrets behind trees are answered and proved without a list of decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
from sklearn.ensemble import RandomForestRegressor  # noqa: E402
from tests.trees.test_tree_cells import Between, _compare, _data, _forest  # noqa: E402

import cfopt  # noqa: E402
from cfopt.engine.rules import Rules  # noqa: E402
from cfopt.engine.space import Space  # noqa: E402
from cfopt.engine.task import Task  # noqa: E402
from cfopt.exact.regret_proof import RegretProof  # noqa: E402
from cfopt.exact.verify import recheck  # noqa: E402
from cfopt.problems import GridShortestPath, Knapsack, Oracle  # noqa: E402
from cfopt.search import TreeCells  # noqa: E402
from cfopt.trees.boxes import BoxTree  # noqa: E402

GRID = GridShortestPath(3, 3)
UNLISTED = TreeCells(max_decisions=1)
SACK = Knapsack([2.0, 3.0, 4.0, 5.0, 3.0, 1.0], 8.0)


def _one_hot() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(12)
    x, y = _data(5, 12, seed=12)
    x[:, :3] = np.eye(3)[rng.integers(3, size=len(x))]
    y = y * (1 + x[:, :3] @ rng.uniform(0, 1, (3, 12)))
    return RandomForestRegressor(4, max_depth=4, random_state=0).fit(x, y), x


def _boosted() -> tuple[Any, np.ndarray]:
    x, y = _data(3, 12, seed=8)
    return xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(x, y), x


def _both_signs() -> tuple[Any, np.ndarray]:
    x, y = _data(3, 6, seed=7)
    return RandomForestRegressor(4, max_depth=3, random_state=0).fit(x, y - y.mean(0)), x


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "forest": (lambda: _forest(seed=0), {}),
    "forest, large regret": (lambda: _forest(seed=4), {"epsilon": 0.5}),
    "one target a tree": (_boosted, {"rows": 1}),
    "maximising": (lambda: _forest(n=6, seed=6), {"problem": SACK, "epsilon": 0.3}),
    "prices of both signs": (_both_signs, {"problem": SACK, "epsilon": 0.3}),
    "taxicab": (lambda: _forest(seed=2), {"proximity": cfopt.L1()}),
    "largest change": (lambda: _forest(seed=2), {"proximity": cfopt.LInf()}),
    "margin": (lambda: _forest(seed=3), {"margin": 0.02}),
    "single precision": (lambda: _forest(seed=5), {"dtype": np.float32}),
    "one-hot": (
        _one_hot,
        {
            "features": cfopt.Features(one_hot=[[0, 1, 2]]),
            "allowed": {f: Between(0, 1) for f in range(3)},
            "whole": (0, 1, 2),
            "keep": lambda x: x[:, :3].sum(1) == 1,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_nearest_regret_is_that_of_brute_force_over_cells_and_decisions(name: str) -> None:
    made, settings = CASES[name]
    done = _compare(*made(), criteria=("epsilon",), search=UNLISTED, **settings)
    assert all("cells of trees" in e.method[0] for e in done)


def test_that_no_context_has_the_regret_is_proved_without_a_list() -> None:
    model, x = _forest(seed=10)
    features = cfopt.Features(immutable=[0, 1])
    e = cfopt.explain(
        x[:4], cfopt.Pipeline(model, GRID), cfopt.Epsilon(0.6), search=UNLISTED, features=features
    )
    listed = cfopt.explain(
        x[:4], cfopt.Pipeline(model, GRID), cfopt.Epsilon(0.6), features=features
    )
    assert e.status == listed.status
    assert "proved infeasible" in e.status


def test_a_function_that_decides_is_enough_for_a_proof() -> None:
    model, x = _forest(seed=16)
    listed = GRID.decisions().numpy()
    unlisted = Oracle(lambda c: listed[(listed @ c).argmin()], 12, binary=True)
    e = cfopt.explain(x[:3], cfopt.Pipeline(model, unlisted), cfopt.Epsilon(0.05))
    exact = cfopt.explain(x[:3], cfopt.Pipeline(model, GRID), cfopt.Epsilon(0.05))
    assert exact.optimal.all()
    assert e.optimal.all()
    np.testing.assert_allclose(e.loss, exact.loss, rtol=1e-9)


def test_where_entries_of_decisions_have_no_bounds_nothing_is_proved_and_it_says_why() -> None:
    model, x = _forest(seed=16)
    listed = GRID.decisions().numpy()
    unlisted = Oracle(lambda c: listed[(listed @ c).argmin()], 12)
    e = cfopt.explain(x[:1], cfopt.Pipeline(model, unlisted), cfopt.Epsilon(0.05))
    assert e.valid.all()
    assert e.bound.isnan().all()
    assert "entries of decisions of Oracle have no bounds that are known" in e.message[0]


def _proved() -> tuple[Task, RegretProof, float]:
    model, x = _forest(seed=13, n_estimators=8)
    pipeline, contexts = cfopt.Pipeline(model, GRID), torch.from_numpy(x)
    decided = pipeline.decide(contexts)
    for row in range(20):
        one = slice(row, row + 1)
        rules = Rules(GRID, decided[one], cfopt.Epsilon(0.15).bind(1, decided[one]))
        task = Task(rules, Space(contexts[one], cfopt.L2()), pipeline.predictor, False)
        points = UNLISTED.run(task)
        proof = points.certificates[0]
        assert isinstance(proof, RegretProof)
        if points.found[0] and len(proof.boxes) > 30:
            return task, proof, float(task.space.loss(points.x))
    raise AssertionError("No row has a proof with many boxes.")


def test_a_proof_that_was_tampered_with_is_rejected() -> None:
    task, proof, loss = _proved()

    def proves(changed: RegretProof) -> float:
        return float(recheck(task, [changed]).bound[0])

    assert loss * (1 - 1e-6) <= proves(proof) <= loss
    assert proves(replace(proof, claim=4 * proof.claim)) <= loss
    boxes = proof.boxes
    root = BoxTree(*(part[:1] * 0 - 1 for part in vars(boxes).values()))
    assert proves(replace(proof, boxes=replace(root, reason=root.reason + 1))) < proof.claim
    shifted = replace(boxes, threshold=boxes.threshold + 0.3)
    assert proves(replace(proof, boxes=shifted)) < proof.claim
    for box in np.flatnonzero(boxes.feature >= 0)[1:4]:
        feature = boxes.feature.copy()
        feature[box] = -1
        reason = boxes.reason.copy()
        reason[box] = 0
        cut = replace(proof, boxes=replace(boxes, feature=feature, reason=reason))
        assert proves(cut) <= proof.claim
    own = replace(boxes, left=np.zeros_like(boxes.left))
    assert proves(replace(proof, boxes=own)) == 0.0


def test_stopped_early_what_is_proved_still_holds() -> None:
    model, x = _forest(seed=14, n_estimators=12, max_depth=5)
    pipeline = cfopt.Pipeline(model, GRID)
    exact = cfopt.explain(x[:3], pipeline, cfopt.Epsilon(0.3))
    assert exact.optimal.all()
    early = cfopt.explain(
        x[:3], pipeline, cfopt.Epsilon(0.3), search=replace(UNLISTED, seconds_a_row=1e-9)
    )
    assert (early.bound <= exact.loss).all()
    assert not early.optimal.any()


def test_a_solver_that_is_a_little_off_proves_no_more_than_is_true() -> None:
    model, x = _forest(seed=16)
    listed = GRID.decisions().numpy()

    def off(costs: np.ndarray) -> np.ndarray:
        values = listed @ costs
        return listed[np.flatnonzero(values <= 1.01 * values.min())[-1]]

    unlisted = Oracle(off, 12, binary=True, tolerance=0.01)
    found = cfopt.explain(
        x[:3], cfopt.Pipeline(model, unlisted), cfopt.Epsilon(0.1), search=UNLISTED
    )
    exact = cfopt.explain(x[:3], cfopt.Pipeline(model, GRID), cfopt.Epsilon(0.1))
    assert (found.bound.nan_to_num(0.0) <= exact.loss * (1 + 1e-9)).all()
