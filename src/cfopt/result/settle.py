"""Verifying what was found, and saying how each row ended."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cfopt.engine.progress import Points
from cfopt.engine.task import Task
from cfopt.errors import MISUSE, in_words
from cfopt.exact.certificate import Clash
from cfopt.exact.verify import Proof, Verdict, recheck, ties, verify
from cfopt.names import counted
from cfopt.problems.solved import same_decision
from cfopt.question import Contrastive
from cfopt.question.quantifier import Quantifier
from cfopt.result.explanation import is_optimal
from cfopt.result.outcomes import RowOutcomes
from cfopt.result.status import Status
from cfopt.result.wording import BY_THE_MODEL, impossible, miss, nearness, resolved


def settle_at_start(outcomes: RowOutcomes, task: Task) -> None:
    """Verify the contexts themselves: some may already explain, or be the only ones allowed."""
    rows = outcomes.open_rows()
    if not len(rows):
        return
    start = task[rows]
    verdict = verify(start, start.space.origin, outcomes.costs[rows])
    tie, criterion = ties(start, verdict), start.rules.criterion
    same = same_decision(verdict.wanted, start.rules.factual.to(verdict.wanted)).tolist()
    for i in verdict.valid.nonzero().flatten().tolist():
        reason = criterion.answer(bool(tie[i]), bool(verdict.unbeaten[i]))
        reason += resolved(start.rules.problem, criterion, verdict.wanted, i)
        if same[i] and isinstance(criterion, Contrastive):
            reason = f"{criterion.subject} is the factual decision"
        reason += verdict.assured[i] if verdict.assured else ""
        status = Status.SAMPLED if verdict.is_sampled(i) else Status.ALREADY_VALID
        outcomes.settle(int(rows[i]), status, f"nothing to change: {reason}")
    nothing = torch.zeros(len(rows), dtype=torch.float64)
    outcomes.record(rows, start.space.origin, nothing, verdict, tie)
    _settle_pinned(outcomes, start, rows, verdict)


def _settle_pinned(outcomes: RowOutcomes, task: Task, rows: Tensor, verdict: Verdict) -> None:
    """Rows that may change nothing: their factual contexts have been judged, and there is no other.

    Arguments:
        task, rows: the open rows, and their numbers in the explanation.
        verdict: what verification says of the factual contexts.
    """
    domain = task.space.domain
    pinned = [] if domain is None else domain.pinned.nonzero().flatten().tolist()
    refuted = [i for i in pinned if not verdict.valid[i] and i not in verdict.failures]
    if domain is None or not refuted:
        return
    rules, clashes = task.rules, {}
    rivals = slice(0, int(Quantifier.EVERY in rules.criterion.multiples))
    bound = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    bound[refuted] = torch.inf
    immutable = zip(domain.limits.names, domain.limits.immutable, strict=True)
    locked = tuple(name for name, fixed in immutable if fixed)
    bounded = tuple(name for name in domain.limits.names if name not in locked)
    for i in refuted:
        decided = verdict.decision[i : i + 1].numpy()[rivals]
        clashes[i] = Clash(decided, bounded, locked, math.inf)
        why = impossible(rules.problem, rules.criterion, rules.margin, clashes[i], limited=True)
        outcomes.settle(int(rows[i]), Status.PROVED_INFEASIBLE, why)
    outcomes.prove(rows, Proof(bound, clashes))


def settle(outcomes: RowOutcomes, task: Task, rows: Tensor, points: Points, unproved: str) -> None:
    """Verify what the search found, and say how each row ended.

    A row whose answer or proof cannot be checked without an exception has none.

    Arguments:
        task, rows: those that were searched for, and their numbers in the explanation.
        unproved: why nothing is proved about nearer contexts, to follow an answer; or "".
    """
    try:
        _settle(outcomes, task, rows, points, unproved)
    except MISUSE:
        raise
    # Any: the caller's models and solvers run here.
    except Exception as error:
        if len(rows) == 1:
            lost = task.unanswered(f"the check of its answer raised {in_words(error)}")
            _settle(outcomes, task, rows, lost, "")
            return
        for k in range(len(rows)):
            own = task.row_numbers[k : k + 1]
            settle(outcomes, task[own], rows[own], points[own], unproved)


def _settle(outcomes: RowOutcomes, task: Task, rows: Tensor, points: Points, unproved: str) -> None:
    with torch.no_grad():
        x = task.space.context(points.x)
    verdict = verify(task, x)
    proof = recheck(task, points.certificates).without(verdict.valid)
    loss = task.space.loss(points.x)
    optimal = is_optimal(loss, proof.bound.to(loss)).tolist()
    latent = task.space.latent
    penalised = latent is not None and latent.plausibility is not None
    near = None if penalised else task.space.proximity
    level = ties(task, verdict)
    valid, tie, steps = verdict.valid.tolist(), level.tolist(), points.steps.tolist()
    violation, unbeaten = verdict.violation.tolist(), verdict.unbeaten.tolist()
    rules, moved = task.rules, [""] * len(rows)
    outcomes.record(rows, x, loss, verdict, level, points)
    outcomes.prove(rows, proof)
    if outcomes.codes is not None:
        model_alone = outcomes.codes[rows].moved(rules.factual).tolist()
        moved = [BY_THE_MODEL if alone else "" for alone in model_alone]
    for i, row in enumerate(rows.tolist()):
        if valid[i]:
            what = rules.criterion.answer(tie[i], unbeaten[i])
            what += resolved(rules.problem, rules.criterion, verdict.wanted, i)
            what += verdict.assured[i] if verdict.assured else ""
            how_near = nearness(loss[i], proof.bound[i], optimal[i], near) or unproved
            status = Status.SAMPLED if verdict.is_sampled(i) else Status.VALID
            outcomes.settle(row, status, what + how_near + moved[i])
            continue
        if i in proof.clashes:
            limited = task.space.domain is not None
            why = impossible(
                rules.problem, rules.criterion, rules.margin, proof.clashes[i], limited
            )
            outcomes.settle(row, Status.PROVED_INFEASIBLE, why)
            continue
        lacking = verdict.failures.get(i)
        lacking = lacking or miss(rules.criterion, rules.margin, violation[i], rules.problem.sense)
        note = f" ({points.notes[i]})" if points.notes[i] else ""
        taken = counted(steps[i], "step")
        outcomes.settle(
            row,
            Status.BEST_EFFORT,
            f"no valid context found in {taken}{note}; at the nearest miss {lacking}"
            f"{unproved}{moved[i]}",
        )
