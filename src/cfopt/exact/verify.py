"""The last word on every answer and every proof, recomputed in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt.engine.rules import Rules
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash
from cfopt.problems.base import FEASIBILITY_TOLERANCE, Solved


@dataclass(frozen=True)
class Verdict:
    """What a fresh solve says of some contexts; all tensors are float64 on the CPU.

    Arguments:
        valid: whether the criterion holds, `(B,)`.
        unbeaten: whether the factual decision is still among the best, `(B,)`.
        violation: h in minimisation form, the margin included: what is missing where it is > 0.
        tie: whether a valid row is a tie, so that the solver may go either way.
        decision: what the pipeline decides there, `(B, m)`; NaN where the solver failed.
        costs: the costs predicted there, `(B, n)`.
        failures: why the solver failed, or the context is not allowed, by row.
    """

    valid: Tensor
    unbeaten: Tensor
    violation: Tensor
    tie: Tensor
    decision: Tensor
    costs: Tensor
    failures: dict[int, str]


def verify(task: Task, x: Tensor) -> Verdict:
    """Judge contexts: valid is `h <= 1e-6 * sum_j |price_j d_j|`, `(B, ...) -> Verdict`.

    The contexts themselves, as they will be returned, also where codes were searched.
    """
    with torch.no_grad():
        costs = task.pipeline.deployed(x).to("cpu", torch.float64)
    host = task.rules.on_host()
    prices = host.turned(costs)
    solved = host.optimum(prices, task.recall)
    rival = host.rival(prices, solved)
    judged = host.judge(prices, rival.decisions, shortfall=rival.shortfall)
    failures = _doubtful(host, prices, solved) | rival.failures
    # Two decisions can be compared without a solve, if their prices are numbers.
    numbers = prices.abs().sum(1).isfinite().tolist()
    failures |= {
        row: why for row, why in solved.failures.items() if host.calls_solver or not numbers[row]
    }
    if rival.shortfall is not None:
        seeming = host.judge(prices, rival.decisions).holds & ~judged.holds
        for row in seeming.nonzero().flatten().tolist():
            failures[row] = (
                "the criterion seems to hold, but the solver's answer is only known to be within "
                f"{float(rival.shortfall[row]):.3g} of the best value; ask it for a smaller gap"
            )
    if task.space.domain is not None:
        faults = enumerate(task.space.domain.faults(x))
        failures |= {row: f"the context is not allowed: {fault}" for row, fault in faults if fault}
    valid = judged.holds.clone()
    valid[list(failures)] = False
    tie = valid & host.ties(prices, solved.decisions)
    unbeaten = ~host.beats(prices, solved.decisions, host.factual)
    return Verdict(valid, unbeaten, judged.h, tie, solved.decisions, costs, failures)


@dataclass(frozen=True)
class Proof:
    """What certificates prove when they are recomputed.

    Arguments:
        bound: the least loss of any explanation of a row, `(B,)` in float64 on the CPU; inf if
            there is none, NaN where nothing is proved.
        clashes: what contradicts each other, for the rows that have no explanation.
    """

    bound: Tensor
    clashes: dict[int, Clash]

    def without(self, valid: Tensor) -> Proof:
        """Rows that are valid within the tolerance, whatever is proved without it: no proof."""
        refuted = valid & (self.bound == torch.inf)
        kept = {row: clash for row, clash in self.clashes.items() if not refuted[row]}
        return Proof(self.bound.masked_fill(refuted, torch.nan), kept)


def recheck(task: Task, certificates: Sequence[Certificate[Any] | None]) -> Proof:
    """Evaluate certificates against the task itself, whatever the search made of them."""
    bound = torch.full((len(task),), torch.nan, dtype=torch.float64)
    clashes: dict[int, Clash] = {}
    given = {row: proof for row, proof in enumerate(certificates) if proof is not None}
    models = {kind: kind.model(task) for kind in {type(proof) for proof in given.values()}}
    for row, proof in given.items():
        model = models[type(proof)]
        if model is None:
            continue
        problem, decisions = model.rules.problem, proof.decisions()
        if decisions and problem.audit(np.stack(decisions)):
            continue  # a decision that is not feasible proves nothing
        bound[row] = proof.bound(model, row)
        if bound[row] == torch.inf:
            clashes[row] = proof.clash(model, row)
    return Proof(bound, clashes)


def _doubtful(rules: Rules, prices: Tensor, solved: Solved) -> dict[int, str]:
    """Rows whose optimum cannot be one, where the criterion depends on it."""
    if not rules.calls_solver:
        return {}
    doubts = rules.problem.audit(solved.decisions.numpy())
    # To within its tolerance a decision is the same, and may be better or worse by as much.
    blur = FEASIBILITY_TOLERANCE * (prices.abs() * solved.decisions.abs().clamp(min=1)).sum(1)
    if solved.shortfall is not None:
        blur = blur.maximum(solved.shortfall)
    if rules.problem.binary:
        blur = torch.zeros_like(blur)
    for decision in (rules.factual, rules.pivot):
        beaten = rules.beats(prices, decision, solved.decisions, blur)
        doubts |= dict.fromkeys(
            beaten.nonzero().flatten().tolist(),
            "the solver's answer is worse than a decision known to be feasible",
        )
    return doubts
