"""The hostile trial: no answer is wrong, and its judge notices every kind of wrong one."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from benchmarks import hostile
from benchmarks.hostile.cases import Case, make_case
from benchmarks.hostile.enumeration import Nearest
from benchmarks.hostile.instances import predicted
from benchmarks.hostile.judge import FAILURES, Claim, claims, judged, verdict
from benchmarks.hostile.truth import Truth

SEED = 5


def _cases(count: int, families: str, modifiers: str = "plain") -> list[Case]:
    """The first so many cases of some families and modifiers."""
    every = (make_case(SEED, number) for number in range(10_000))
    some = (one for one in every if one.family in families and one.modifier in modifiers)
    return [*islice(some, count)]


@pytest.mark.parametrize(
    ("count", "families", "modifiers"),
    [
        (35, "affine identity", "plain margin models one change two changes"),
        (6, "forest relu", "plain"),
    ],
)
def test_no_answer_of_the_trial_is_wrong(count: int, families: str, modifiers: str) -> None:
    counts: Counter[str] = Counter()
    for case in _cases(count, families, modifiers):
        for ended, why in judged(case):
            assert ended not in FAILURES, f"case {case.number}: {case.words}: {why}"
            counts[ended] += 1
    assert counts["right"] > 0.8 * counts.total()


def _claims(count: int, families: str, modifier: str) -> list[tuple[Truth, Claim]]:
    """Answers that are right, and no context's own."""
    found = []
    for case in _cases(count, families, modifier):
        if case.question != "group":
            found += [(truth, claim) for truth, claim, _ in claims(case, case.ask())]
    return [
        (truth, claim)
        for truth, claim in found
        if claim.status == "valid" and claim.distance > 0.01 and verdict(truth, claim)[0] == "right"
    ]


def _moved(truth: Truth, claim: Claim, share: float) -> Claim:
    x = truth.x0 + share * (claim.x - truth.x0)
    return replace(claim, x=x, distance=truth.loss(x), bound=share * claim.bound, others=())


def _swapped(truth: Truth) -> Truth:
    """The same asked about the plan that was decided."""
    own = int((truth.case.listed == truth.factual[0]).all(axis=1).argmax())
    others = [k for k in range(len(truth.case.listed)) if k != own]
    wanted = [[others[plans[0] == others[0]]] for plans in truth.case.wanted]
    return replace(truth, case=replace(truth.case, wanted=wanted))


@pytest.fixture(scope="module")
def closest() -> list[tuple[Truth, Claim]]:
    found = _claims(12, "affine", "plain") + _claims(5, "forest", "plain")
    plain = [(truth, claim) for truth, claim in found if claim.optimal]
    assert len(plain) > 12
    return plain


def _caught(outcome: str, claims: list[tuple[Truth, Claim]]) -> float:
    return float(np.mean([verdict(truth, claim)[0] == outcome for truth, claim in claims]))


def test_the_judge_notices_what_is_not_so(closest: list[tuple[Truth, Claim]]) -> None:
    nearer = [(truth, _moved(truth, claim, 0.99)) for truth, claim in closest]
    assert _caught("wrong", nearer) > 0.9  # whole numbers and ties apart
    farther = [
        (truth, replace(claim, distance=1.01 * claim.distance, x=_moved(truth, claim, 1.01).x))
        for truth, claim in closest
    ]
    assert _caught("wrong", farther) == 1
    bounds = [(t, replace(c, bound=1.01 * c.bound, optimal=False)) for t, c in closest]
    assert _caught("wrong", bounds) == 1
    lost = [(t, replace(c, status="best effort", bound=0.0, optimal=False)) for t, c in closest]
    assert _caught("missed", lost) == 1
    denied = [(t, replace(c, status="proved infeasible", bound=np.inf)) for t, c in closest]
    assert _caught("wrong", denied) == 1
    twice = [
        (
            t,
            replace(
                c, x=t.x0 + 2 * (c.x - t.x0), distance=2 * c.distance, optimal=False, bound=0.0
            ),
        )
        for t, c in closest
    ]
    assert _caught("farther", twice) + _caught("wrong", twice) == 1
    plans = [(_swapped(t), c) for t, c in closest if not (t.case.epsilon or t.case.foil)]
    assert _caught("wrong", plans) > 0.8  # of more than one plan may be the best


def test_the_judge_notices_balls_and_radii_that_are_too_large() -> None:
    robust = _claims(4, "affine", "ball")
    assert robust
    nearer = [(truth, _moved(truth, claim, 0.99)) for truth, claim in robust]
    assert _caught("refuted", nearer) + _caught("wrong", nearer) > 0.9
    known = [(truth, claim) for truth, claim in robust if claim.radius]
    assert known
    radii = [(truth, replace(claim, radius=1.2 * claim.radius)) for truth, claim in known]
    assert _caught("refuted", radii) > 0.9


def test_enumeration_and_drawing_find_the_same() -> None:
    compared = 0
    for case in _cases(12, "affine forest relu"):
        if case.question not in ("relative", "absolute"):
            continue
        prices = case.problem.sense.sign * predicted(case.model, case.x0)
        for row, own in enumerate(case.listed[(prices @ case.listed.T).argmin(axis=1)]):
            truth = Truth(case, row, own[None])
            exact, drawn = Nearest(truth), Nearest(truth, by_drawing=True)
            assert exact.distance <= drawn.distance * (1 + 1e-6)
            if 0 < exact.distance < drawn.distance < np.inf:
                compared += 1
                assert drawn.distance < 1.1 * exact.distance
    assert compared > 3


def test_a_seed_and_a_number_make_the_same_case_again() -> None:
    first, again = make_case(3, 5), make_case(3, 5)
    assert first.words == again.words
    assert np.array_equal(first.known, again.known)
    assert not np.array_equal(first.known, make_case(4, 5).known)


def test_a_process_that_crashes_costs_one_case() -> None:
    worker = (
        "import json, os, sys\n"
        "for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):\n"
        "    if number % 3 == 1: os.abort()\n"
        "    print(json.dumps([['right', '']] * 3), flush=True)\n"
    )
    found = [*islice(hostile.judgements(SEED, [sys.executable, "-c", worker]), 6)]
    assert [number for number, _ in found] == [0, 1, 2, 3, 4, 5]
    assert [rows[0][0] for _, rows in found] == ["right", "crash", "right"] * 2
