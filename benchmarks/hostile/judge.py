"""The verdict on each answer of a case."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

import cfopt
from benchmarks.hostile.cases import Case
from benchmarks.hostile.enumeration import Nearest
from benchmarks.hostile.instances import Array
from benchmarks.hostile.truth import Truth
from cfopt.running.threads import of_torch

#: How a row may end; first what ends the trial with an error.
FAILURES = ("wrong", "refuted", "crash")
OUTCOMES = (*FAILURES, "missed", "farther", "overrun", "sampled", "refused", "right")
#: By which fraction distances may differ, and beyond which an answer without proof is farther.
_SAME, _FARTHER = 1e-5, 1.05
#: What the message of a row says whose search or check ended with an exception.
_RAISED = re.compile(r" raised \w+:")


@dataclass(frozen=True)
class Claim:
    """What is claimed of a row; distances are in units of the scales, without squares.

    Arguments:
        status: "valid", "proved infeasible", "sampled", "rejected", or anything else for no answer.
        x: the answer; of a group, the change.
        distance, bound, optimal: how far it is, how far any must be, and whether that is the same.
        radius: how far the answer may be off at least, 0 where that is not claimed.
        others: further options.
    """

    status: str
    x: Array
    distance: float
    bound: float
    optimal: bool
    radius: float = 0.0
    others: tuple[Array, ...] = ()


def verdict(truth: Truth, claim: Claim) -> tuple[str, str]:
    """How a row ended, and why."""
    if claim.status in ("sampled", "rejected"):
        return ("sampled", "") if claim.status == "sampled" else ("refused", "")
    valid, best = claim.status == "valid", math.inf
    if valid:
        for x in (claim.x, *claim.others):
            if not truth.allows(x):
                return "wrong", f"{x.tolist()} is not allowed"
            if not truth.holds(x):
                return "wrong", f"the criterion does not hold at {x.tolist()}"
            if not truth.withstands(x):
                return "refuted", f"a point of the ball around {x.tolist()} refutes it"
        best = truth.loss(claim.x)
        if abs(best - claim.distance) > _SAME * best + 1e-7:
            return "wrong", f"it is {best:.9g} away, not {claim.distance:.9g}"
        if claim.radius:
            around = truth.around(claim.x, claim.radius, 2)
            if not truth.met(around, _SAME, margin=0.0).any(axis=1).all():
                return "refuted", f"a point within {claim.radius:.6g} refutes the radius"
    known = Nearest(truth)
    best = min(best, known.distance)
    where = None if known.x is None else known.x.tolist()
    slack = _SAME * best + 1e-6 if best < math.inf else 0.0
    if claim.status == "proved infeasible" and best < math.inf:
        return "wrong", f"proved impossible, but {where} holds"
    if claim.bound > best + slack:
        return "wrong", f"bound {claim.bound:.9g}, but {where} is {best:.9g} away"
    if valid and claim.distance > best + slack:
        if claim.optimal:
            return "wrong", f"closest at {claim.distance:.9g}, but {where} is {best:.9g} away"
        if claim.distance > _FARTHER * best + slack:
            return "farther", f"{claim.distance:.6g}, but {where} is {best:.6g} away"
    if not valid and best < math.inf:
        return "missed", f"{where} holds, {best:.6g} away"
    return "right", "proved" if claim.optimal or claim.bound == math.inf else ""


def judged(case: Case) -> list[tuple[str, str]]:
    """How each row of a case ended, and why."""
    try:
        with of_torch(case.threads):
            claimed = [*claims(case, case.ask())]
    except cfopt.InputError as error:
        return [("refused", str(error))] * case.answers
    except Exception as error:  # whatever it is, a user would have lost the batch
        return [("crash", f"{type(error).__name__}: {error}"[:300])] * case.answers
    found = []
    for truth, claim, message in claimed:
        ended, why = verdict(truth, claim)
        if ended in ("missed", "right") and _RAISED.search(message):
            ended = "crash"
        found.append((ended, f"{why} [{claim.status}: {message}]" if ended != "right" else why))
    return found


def claims(
    case: Case, e: cfopt.Explanation | cfopt.GroupExplanation
) -> Iterator[tuple[Truth, Claim, str]]:
    """What is claimed of each row, beside what is true of it, and the message."""

    def plain(loss: float) -> float:
        return math.sqrt(max(0.0, loss)) if case.norm == 2 else loss

    if isinstance(e, cfopt.GroupExplanation):
        status = "valid" if e.valid else "proved infeasible" if e.infeasible else "best effort"
        claim = Claim(status, e.change.numpy(), plain(e.loss), plain(e.bound), e.optimal)
        yield Truth(case, 0, _listed(case, e.explanation.factual)), claim, e.message
        return
    measured = case.modifier in ("margin", "ball") and bool(e.valid.any())
    kinds = e.radius_kind if measured else ("",) * len(e)
    for row, status in enumerate(e.status):
        options = None if e.options is None else e.options[row]
        claim = Claim(
            "valid" if status.is_valid else str(status),
            e.x[row].numpy(),
            plain(float(e.loss[row])),
            plain(float(e.bound[row])),
            bool(e.optimal[row]),
        )
        if kinds[row] in ("exact", "at least"):
            claim = replace(claim, radius=0.999 * min(50.0, float(e.radius[row])))
        if options is not None:
            others = [options.x[k].numpy() for k in range(1, len(options)) if options.valid[k]]
            claim = replace(claim, others=tuple(others))
        factual = _listed(case, e.factual[[row] * (1 + len(case.others))])
        yield Truth(case, row, factual), claim, e.message[row]


def _listed(case: Case, decisions: torch.Tensor) -> Array:
    """Plans of the list that decisions are up to rounding."""
    off = np.abs(decisions.numpy()[:, None] - case.listed).max(axis=2)
    return case.listed[off.argmin(axis=1)]
