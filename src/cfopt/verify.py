"""The last word on every answer and every proof, computed anew in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cfopt.affine_task import AffineTask
from cfopt.certificate import Certificate, Clash
from cfopt.problems.base import same_decision
from cfopt.task import TOLERANCE, Task

#: How exactly sums of prices are known, as a part of their terms.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Verdict:
    """What a fresh solve says of some contexts; all tensors are float64 on the CPU.

    Arguments:
        valid: whether the criterion holds, `(B,)`.
        unbeaten: whether the factual decision is still among the best, `(B,)`.
        violation: h in minimisation form, the margin included: what is missing where it is > 0.
        tie: whether a valid row is decided by a hair only, so that the solver may go either way.
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

    The contexts themselves, as they will be handed over, also where codes were searched.
    """
    with torch.no_grad():
        costs = task.pipeline.predict(x).to("cpu", torch.float64)
    host = task.on_host()
    prices = host.turned(costs)
    solved = host.optimum(prices)
    rival = host.rival(prices, solved)
    judged = host.judge(prices, rival.decisions)
    failures = _doubtful(host, prices, solved.decisions) | solved.failures | rival.failures
    if task.domain is not None:
        faults = enumerate(task.domain.faults(x))
        failures |= {row: f"the context is not allowed: {fault}" for row, fault in faults if fault}
    valid = judged.holds.clone()
    valid[list(failures)] = False
    tie = valid & host.ties(prices, solved.decisions)
    unbeaten = ~_beats(prices, solved.decisions, host.factual, _size(host, prices))
    return Verdict(valid, unbeaten, judged.h, tie, solved.decisions, costs, failures)


@dataclass(frozen=True)
class Proof:
    """What certificates prove when they are computed anew.

    Arguments:
        bound: what any explanation of a row costs at least, `(B,)` in float64 on the CPU; inf if
            there is none, NaN where nothing is proved.
        clashes: what stands against each other, for the rows that have no explanation.
    """

    bound: Tensor
    clashes: dict[int, Clash]

    def without(self, valid: Tensor) -> Proof:
        """Rows that are valid within the tolerance, whatever is proved without it: no proof."""
        refuted = valid & (self.bound == torch.inf)
        kept = {row: clash for row, clash in self.clashes.items() if not refuted[row]}
        return Proof(self.bound.masked_fill(refuted, torch.nan), kept)


def recheck(task: Task, certificates: Sequence[Certificate | None]) -> Proof:
    """Evaluate certificates against the task itself, whatever the search made of them."""
    bound = torch.full((len(task),), torch.nan, dtype=torch.float64)
    clashes: dict[int, Clash] = {}
    given = {row: proof for row, proof in enumerate(certificates) if proof is not None}
    if not given or AffineTask.refusal(task):
        return Proof(bound, clashes)
    model = AffineTask(task)
    problem = model.task.pipeline.problem
    for row, proof in given.items():
        decisions = proof.decisions()
        if decisions and problem.audit(np.stack(decisions)):
            continue  # a decision that is not feasible proves nothing
        bound[row] = proof.bound(model, row)
        if bound[row] == torch.inf:
            clashes[row] = proof.clash(model, row)
    return Proof(bound, clashes)


def _beats(prices: Tensor, left: Tensor, right: Tensor, size: Tensor) -> Tensor:
    """Whether the left decision is another one than the right, and better."""
    terms = prices * (left - right)
    # Where only columns differ whose prices are 0 but for rounding, neither is better.
    rounding = _ROUNDING * size * (left - right).abs().sum(1)
    better = terms.sum(1) < -TOLERANCE * terms.abs().sum(1) - rounding
    return better & ~same_decision(left, right)


def _size(task: Task, prices: Tensor) -> Tensor:
    """The largest price of each row, here or at the origin: `(B, m) -> (B,)`."""
    here = prices.abs().amax(1)
    return here if task.size is None else here.maximum(task.size.to(here))


def _doubtful(task: Task, prices: Tensor, optimum: Tensor) -> dict[int, str]:
    """Rows whose optimum cannot be one, where the criterion depends on it."""
    if not task.calls_solver:
        return {}
    doubts = task.pipeline.problem.audit(optimum.numpy())
    for decision in (task.factual, task.criterion.pivot(task.factual)):
        for row in (
            _beats(prices, decision, optimum, _size(task, prices)).nonzero().flatten().tolist()
        ):
            doubts[row] = "the solver's answer is worse than a decision known to be feasible"
    return doubts
