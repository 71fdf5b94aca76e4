"""Wishes behind trees: the nearest context of any plan, against brute force over all cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
from tests.trees.test_tree_cells import (  # noqa: E402
    Between,
    _brute_force,
    _choices,
    _data,
    _forest,
    _task,
)

import cfopt  # noqa: E402
from cfopt import Avoids, Uses  # noqa: E402
from cfopt.exact.regret_proof import RegretProof  # noqa: E402
from cfopt.exact.tree_proof import Branch, TreeProof  # noqa: E402
from cfopt.exact.verify import recheck  # noqa: E402
from cfopt.problems import GridShortestPath, Knapsack  # noqa: E402
from cfopt.result.status import Status  # noqa: E402
from cfopt.search import TreeCells, tree_branched, tree_row, tree_wish  # noqa: E402
from cfopt.search.tree_branched import Branched  # noqa: E402

GRID = GridShortestPath(3, 3)
SACK = Knapsack([2.0, 3.0, 4.0, 5.0, 3.0, 1.0], 8.0)


def _boosted() -> tuple[Any, np.ndarray]:
    x, y = _data(3, 12, seed=8)
    return xgboost.XGBRegressor(n_estimators=1, max_depth=2, n_jobs=1).fit(x, y), x


CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "route": (GRID, Uses("E"), lambda: _forest(seed=0), {}),
    "detour": (GRID, Avoids("E") & Uses("H"), lambda: _forest(seed=1), {}),
    "largest change": (GRID, Uses("E"), lambda: _forest(seed=2), {"proximity": cfopt.LInf()}),
    "margin": (GRID, Uses("E"), lambda: _forest(seed=3), {"margin": 0.02}),
    "maximising": (SACK, Uses("item 2"), lambda: _forest(n=6, seed=6), {}),
    "never": (SACK, Uses("item 3"), lambda: _forest(n=6, seed=6), {}),
    "maximising, margin": (SACK, Uses("item 3"), lambda: _forest(n=6, seed=7), {"margin": 0.02}),
    "one target a tree": (GRID, Avoids("E"), _boosted, {}),
}


def _met(kind: type, problem: Any, foil: Any, factual: np.ndarray, margin: float) -> Any:
    """The definition: some plan of the foil wins, against all that are not of it if by a margin."""
    listed = problem.decisions().numpy()
    granting = foil.conditions(problem).met(listed)

    def holds(costs: np.ndarray) -> np.ndarray:
        prices = problem.sense.sign * costs
        values = prices @ listed.T
        new, old = values[:, granting].min(1), prices @ factual
        if kind is cfopt.Absolute:
            old = values[:, ~granting if margin > 0 else slice(None)].min(1)
        return new + margin * np.abs(new) <= old + 1e-9

    return holds


def _compare_with_brute_force(
    name: str, kind: type, search: TreeCells, rows: int
) -> list[cfopt.Explanation]:
    """Answers, none of which is farther than brute force, and none proved that is farther."""
    problem, foil, made, asked = CASES[name]
    model, x = made()
    pipeline, contexts, order = cfopt.Pipeline(model, problem), torch.from_numpy(x), 2
    if "proximity" in asked:
        order = np.inf
    thresholds = pipeline.predictor.translation.ensemble.thresholds
    decided, compared = pipeline.decide(contexts).numpy(), []
    for row in range(rows):
        e = cfopt.explain(contexts[row : row + 1], pipeline, kind(foil), search=search, **asked)
        if e.status[0] is Status.ALREADY_VALID:
            continue
        choices = [
            _choices(edges, x[row, f], np.float64, Between(), False)
            for f, edges in enumerate(thresholds)
        ]
        least = _brute_force(
            pipeline.predictor.original, choices, x[row],
            lambda change: np.linalg.norm(change, order, 1) ** (2 if order == 2 else 1),
            _met(kind, problem, foil, decided[row], asked.get("margin", 0.0)),
        )  # fmt: skip
        about = f"row {row}: {e.message[0]}, brute force {least}"
        compared.append(e)
        if least == np.inf:
            assert e.status[0] is Status.PROVED_INFEASIBLE, about
            continue
        assert e.valid[0], about
        assert float(e.loss[0]) == pytest.approx(least, rel=1e-6), about
        assert e.optimal[0], about
        assert "cells of trees" in e.method[0]
        assert foil.conditions(problem).met(e.wanted.numpy()).all()
    assert compared
    return compared


@pytest.mark.parametrize("kind", [cfopt.Absolute, cfopt.Relative])
@pytest.mark.parametrize("name", CASES)
def test_the_nearest_answer_to_a_wish_is_that_of_brute_force(name: str, kind: type) -> None:
    _compare_with_brute_force(name, kind, TreeCells(), rows=6)


@pytest.mark.parametrize("kind", [cfopt.Absolute, cfopt.Relative])
@pytest.mark.parametrize("name", CASES)
def test_plans_that_are_too_many_to_list_are_bounded_all_the_same(name: str, kind: type) -> None:
    _compare_with_brute_force(name, kind, TreeCells(max_decisions=1), rows=6)


def test_what_cannot_be_granted_is_proved() -> None:
    model, x = _forest(seed=10)
    features = cfopt.Features(immutable=[0, 1, 2])
    e = cfopt.explain(
        x[:6], cfopt.Pipeline(model, GRID), cfopt.Absolute(Uses("E")), features=features
    )
    assert set(e.status) == {Status.PROVED_INFEASIBLE, Status.ALREADY_VALID}


def test_a_proof_about_plans_that_was_tampered_with_proves_less() -> None:
    model, x = _forest(seed=13, n_estimators=12, max_depth=4)
    pipeline, contexts, foil = cfopt.Pipeline(model, GRID), torch.from_numpy(x), Uses("E")
    decided = pipeline.decide(contexts)
    asked = cfopt.Absolute(foil.on(GRID))
    row = next(
        k for k in range(len(x)) if not foil.conditions(GRID).met(decided[k : k + 1].numpy())[0]
    )
    task = _task(contexts[row : row + 1], decided[row : row + 1], pipeline, asked)
    points = TreeCells().run(task)
    proof, loss = points.certificates[0], float(task.space.loss(points.x))
    assert isinstance(proof, TreeProof)

    def proves(changed: TreeProof, of: Any = task) -> float:
        return float(recheck(of, [changed]).bound[0])

    assert loss * (1 - 1e-6) <= proves(proof) <= loss
    assert proves(replace(proof, claim=2 * loss)) <= loss
    for k in proof.branches:  # a plan is left out, or not refuted
        others = {j: branch for j, branch in proof.branches.items() if j != k}
        assert proves(replace(proof, branches=others)) == 0
    emptied = {k: Branch((), branch.boxes) for k, branch in proof.branches.items()}
    assert proves(replace(proof, branches=emptied)) == 0
    # What another plan must beat is no cut where only the factual decision counts.
    relative = replace(task, rules=replace(task.rules, criterion=cfopt.Relative(foil.on(GRID))))
    assert not proves(proof, relative) > 0
    # With a margin plans that grant the wish need not win against each other.
    rivals = [cut.decision for branch in proof.branches.values() for cut in branch.cuts]
    with_margin = replace(task, rules=replace(task.rules, margin=0.01, wish=None))
    if any(foil.conditions(GRID).met(rival[None])[0] for rival in rivals):
        assert proves(proof, with_margin) == 0


def test_a_proof_about_unlisted_plans_that_was_tampered_with_proves_less() -> None:
    model, x = _forest(seed=13, n_estimators=12, max_depth=4)
    pipeline, contexts, foil = cfopt.Pipeline(model, GRID), torch.from_numpy(x), Uses("E")
    decided = pipeline.decide(contexts)
    row = next(
        k for k in range(len(x)) if not foil.conditions(GRID).met(decided[k : k + 1].numpy())[0]
    )
    asked = cfopt.Absolute(foil.on(GRID))
    task = _task(contexts[row : row + 1], decided[row : row + 1], pipeline, asked)
    points = TreeCells(max_decisions=1).run(task)
    proof, loss = points.certificates[0], float(task.space.loss(points.x))
    assert isinstance(proof, RegretProof)
    assert proof.rivals is not None

    def proves(changed: RegretProof, of: Any = task) -> float:
        return float(recheck(of, [changed]).bound[0])

    assert loss * (1 - 1e-6) <= proves(proof) <= loss
    assert proves(replace(proof, claim=2 * loss)) <= loss
    assert proves(replace(proof, rivals=None)) == 0
    assert proves(replace(proof, rivals=proof.rivals[:0])) == 0
    # A plan that grants the wish is no worse than itself.
    plan = task.rules.wish.best(GRID, torch.ones((1, GRID.num_costs))).decisions.numpy()
    assert proves(replace(proof, rivals=np.repeat(plan, len(proof.rivals), 0))) < loss
    # Where only the factual decision counts, others are no rivals.
    relative = replace(task, rules=replace(task.rules, criterion=cfopt.Relative(foil.on(GRID))))
    assert len(proof.rivals) == 1 or not proves(proof, relative) > 0


def test_plans_that_are_too_many_are_proved_to_win_by_a_margin_against_others_only() -> None:
    model, x = _forest(seed=5)
    pipeline, contexts, foil = cfopt.Pipeline(model, GRID), torch.from_numpy(x), Uses("E")
    granted = foil.conditions(GRID).met(pipeline.decide(contexts).numpy())
    asked = cfopt.Absolute(foil)
    search, margin = TreeCells(max_decisions=1), 0.05
    rows = contexts[torch.from_numpy(granted)][:12]
    found = cfopt.explain(rows, pipeline, asked, search=search, margin=margin)
    listed = cfopt.explain(rows, pipeline, asked, margin=margin)
    assert found.status == listed.status
    moved = listed.optimal & (listed.loss > 0)
    assert moved.any()  # the wish was granted before, but not by so much
    assert found.optimal[moved].all()
    np.testing.assert_allclose(found.loss[moved], listed.loss[moved], rtol=1e-6)
    # A plan that grants the wish is no rival then.
    row = int(moved.nonzero()[0])
    decided = pipeline.decide(rows[row : row + 1])
    task = _task(rows[row : row + 1], decided, pipeline, cfopt.Absolute(foil.on(GRID)))
    task = replace(task, rules=replace(task.rules, margin=margin, wish=None))
    proof = search.run(task).certificates[0]
    assert float(recheck(task, [proof]).bound[0]) > 0
    tampered = replace(proof, rivals=np.concatenate([proof.rivals, decided.numpy()]))
    assert float(recheck(task, [tampered]).bound[0]) == 0


def test_steps_are_the_boxes_that_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Branched] = []

    class Counted(Branched):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    for module in (tree_wish, tree_branched, tree_row):
        monkeypatch.setattr(module, "Branched", Counted)
    problem, foil, make, asked = CASES["route"]
    model, x = make()
    e = cfopt.explain(
        x[:8], cfopt.Pipeline(model, problem), cfopt.Absolute(foil), search=TreeCells(), **asked
    )
    assert int(e.steps.sum()) == sum(one.branching.looked for one in made) > 0
