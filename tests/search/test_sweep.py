"""The sweep's brute force: it agrees with exact answers, and notices every kind of false claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from benchmarks import sweep
from benchmarks.sweep_tasks import PROBLEMS, make_task

import cfopt

EXACT = [name for name in PROBLEMS if "off by" not in name and "gap" not in name]


def _numbers(kind: str, count: int) -> list[int]:
    """Tasks of exact problems that are affine, in float64, and of one kind."""
    found = []
    for number in range(1000):
        task = make_task(7, number)
        double = task.affine and task.x0.dtype == torch.float64
        if task.name in EXACT and double and task.kind == kind and not task.margin:
            found.append(number)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("kind", ["relative", "absolute", "epsilon above 1"])
def test_exact_answers_are_those_of_brute_force(kind: str) -> None:
    kinds = Counter()
    for number in _numbers(kind, 4):
        kinds.update(found for _, found, _ in sweep.check(make_task(7, number), Counter()))
    assert kinds["valid"] > 0
    assert not set(kinds) & set(sweep.VIOLATIONS), kinds


def _spoil_x(e: cfopt.Explanation) -> cfopt.Explanation:
    return replace(e, x=e.x0)


def _spoil_bound(e: cfopt.Explanation) -> cfopt.Explanation:
    return replace(e, bound=e.bound * 1.01, loss=e.loss * 1.02)


def _spoil_optimum(e: cfopt.Explanation) -> cfopt.Explanation:
    return replace(e, bound=e.bound * 1.01, loss=e.loss * 1.01)


def _spoil_verdict(e: cfopt.Explanation) -> cfopt.Explanation:
    status = (cfopt.Status.PROVED_INFEASIBLE,) * len(e)
    return replace(e, status=status, bound=torch.full_like(e.bound, torch.inf))


def _spoil_answer(e: cfopt.Explanation) -> cfopt.Explanation:
    return replace(e, status=(cfopt.Status.BEST_EFFORT,) * len(e))


def _spoil_factual(e: cfopt.Explanation) -> cfopt.Explanation:
    return replace(e, factual=e.alternative)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_spoil_x, "false valid"),
        (_spoil_bound, "false bound"),
        (_spoil_optimum, "false optimum"),
        (_spoil_verdict, "false infeasibility"),
        (_spoil_answer, "missed"),
        (_spoil_factual, "wrong factual"),
    ],
)
def test_a_false_claim_is_noticed(spoil, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = cfopt.explain
    monkeypatch.setattr(cfopt, "explain", lambda *args, **more: spoil(explain(*args, **more)))
    kinds = Counter()
    for number in _numbers("absolute", 2):
        kinds.update(found for _, found, _ in sweep.check(make_task(7, number), Counter()))
    assert kinds[kind] > 0, kinds


def test_a_seed_and_a_number_make_the_same_task_again() -> None:
    first, again = make_task(3, 5), make_task(3, 5)
    assert torch.equal(first.x0, again.x0)
    assert first.kind == again.kind
    assert not torch.equal(first.x0, make_task(4, 5).x0)
