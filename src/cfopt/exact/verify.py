"""The last word on every answer and every proof, recomputed in float64."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt._rows import stacked
from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.task import Task
from cfopt.exact.assurance import assure
from cfopt.exact.certificate import Certificate, Clash
from cfopt.exact.domination import unforgiven
from cfopt.exact.one_plan import about_one_plan
from cfopt.problems.base import Problem
from cfopt.problems.solved import FEASIBILITY_TOLERANCE, NO_OTHER, TIME_IS_UP, Solved


@dataclass(frozen=True)
class Verdict:
    """What a fresh solve says of some contexts; all tensors are float64 on the CPU.

    Arguments:
        valid: whether the criterion holds, `(B,)`.
        unbeaten: whether the factual decision is still among the best, `(B,)`.
        violation: h in minimisation form, the margin included: what is missing where it is > 0.
        wanted: the plan that is argued for, of a wish the best one there, `(B, m)`; NaN without.
        decision: what the pipeline decides there, `(B, m)`; NaN where the solver failed.
        costs: the costs predicted there, `(B, n)`.
        failures: why the solver failed, or the context is not allowed, by row.
        assured: what is known of contexts that are a little off and of other predictors, in words
            to follow an answer, for each row; empty where answers need not stand up to anything.
        tried: at how many points alone that was tried, where it is not proved; else 0, `(B,)`.
    """

    valid: Tensor
    unbeaten: Tensor
    violation: Tensor
    wanted: Tensor
    decision: Tensor
    costs: Tensor
    failures: dict[int, str]
    assured: tuple[str, ...] = ()
    tried: Tensor | None = None

    def is_sampled(self, row: int) -> bool:
        """Whether a row is valid only as far as was tried."""
        return self.tried is not None and bool(self.tried[row])


def verify(task: Task, x: Tensor, costs: Tensor | None = None) -> Verdict:
    """Judge contexts, `(B, ...) -> Verdict`: valid is `h <= 1e-6 * sum_j |price_j d_j| + rounding`.

    The contexts themselves, as they will be returned, also where codes were searched. Where answers
    have to stand up to something, that is judged on top (`assure`): a row may then be valid as far
    as was tried. Of a wish, one plan is to do in all contexts and under all predictors.

    Arguments:
        task: the rows.
        x: their contexts, `(B, ...)`.
        costs: what the deployed model predicts there, `(B, n)`, if it has been asked.
    """
    known = None if task.recall is None else task.recall.verdict
    asked = task.space, task.rules.criterion, task.rules.passed_over, task.variation
    if known is not None and all(map(operator.is_, known[0], asked)) and torch.equal(known[1], x):
        verdict: Verdict = known[2]
        return verdict
    if costs is None:
        with torch.no_grad():
            costs = task.pipeline.deployed(x)
    verdict = _verified(task, x, costs.to("cpu", torch.float64))
    if task.recall is not None and TIME_IS_UP not in verdict.failures.values():
        task.recall.verdict = asked, x.clone(), verdict
    return verdict


def _verified(task: Task, x: Tensor, costs: Tensor) -> Verdict:
    """The same, whatever was verified before."""
    task = about_one_plan(task, x, costs)
    verdict = _judged(task, x, costs)
    if task.variation is None or not verdict.valid.any():
        return verdict
    rows = verdict.valid.nonzero().flatten()
    checked = assure(task[rows], x[rows.to(x.device)], verdict.costs[rows])
    valid, violation = verdict.valid.clone(), verdict.violation.clone()
    valid[rows], violation[rows] = checked.holds, checked.excess.maximum(violation[rows])
    broken = [int(rows[i]) for i in (~checked.holds).nonzero().flatten().tolist()]
    failures = verdict.failures | dict.fromkeys(
        broken, f"the criterion holds there, but not {task.variation.words}"
    )
    words = dict(zip(rows.tolist(), checked.words, strict=True))
    assured = tuple(words.get(row, "") for row in range(len(valid)))
    tried = torch.zeros(len(valid), dtype=torch.long)
    tried[rows] = checked.tried
    return replace(
        verdict, valid=valid, violation=violation, failures=failures, assured=assured, tried=tried
    )


def _judged(task: Task, x: Tensor, costs: Tensor) -> Verdict:
    """Judge contexts just as they are, by the task's own predictor."""
    host = task.rules.on_host()
    prices = host.turned(costs)
    solved = host.optimum(prices, task.recall)
    rival, rules = host.rival(prices, solved), host.at(prices)
    solved = rules.snapped(solved)
    judged = rules.judge(prices, rival.decisions, shortfall=rival.shortfall)
    failures = _doubtful(rules, prices, solved) | rival.failures
    if solved.failures:
        # Two decisions can be compared without a solve, if their prices are numbers.
        numbers = prices.abs().sum(1).isfinite().tolist()
        failures |= {
            row: why
            for row, why in solved.failures.items()
            if host.calls_solver or not numbers[row]
        }
    if rival.shortfall is not None:
        seeming = rules.judge(prices, rival.decisions).holds & ~judged.holds
        for row in seeming.nonzero().flatten().tolist():
            failures[row] = (
                "the criterion seems to hold, but the solver's answer is only known to be within "
                f"{float(rival.shortfall[row]):.3g} of the best value; ask it for a smaller gap"
            )
    failures |= unforgiven(task, host, prices, judged.holds)
    failures |= _passed_over(host, prices, solved)
    if host.criterion.unseats:
        level = rules.terms(prices, rival.decisions).hold(TOLERANCE) & ~judged.holds
        for row in level.nonzero().flatten().tolist():
            failures.setdefault(row, "the factual decision is as good as any other")
    if task.space.domain is not None:
        faults = enumerate(task.space.domain.faults(x))
        failures |= {row: f"the context is not allowed: {fault}" for row, fault in faults if fault}
    # What has no rival at all wins by any margin.
    alone = [row for row, why in failures.items() if why == NO_OTHER]
    failures = {row: why for row, why in failures.items() if why != NO_OTHER}
    valid, h = judged.holds.clone(), judged.h.clone()
    valid[alone], h[alone] = True, 0.0
    if (known := task.space.surroundings) is not None and valid.any():
        rows = valid.nonzero().flatten()
        factors = known.factor(x[rows.to(x.device)]).tolist()
        strange = dict(zip(rows.tolist(), map(known.fault, factors), strict=True))
        failures = {row: why for row, why in strange.items() if why} | failures
    valid[list(failures)] = False
    unbeaten = ~rules.beats(prices, solved.decisions, host.factual)
    wanted = torch.full_like(solved.decisions, torch.nan)
    if rules.criterion.contrasts:
        wanted = rules.pivot.to(wanted)
    return Verdict(valid, unbeaten, h, wanted, solved.decisions, costs, failures)


def ties(task: Task, verdict: Verdict) -> Tensor:
    """Which valid rows are so by equality only, so that the solver may go either way: `(B,)`.

    That may take another solve for each of them.
    """
    tie = torch.zeros_like(verdict.valid)
    rows = verdict.valid.nonzero().flatten()
    if len(rows) and task.rules.margin == 0:
        host = task.rules[rows].on_host()
        tie[rows] = host.ties(host.turned(verdict.costs[rows]), verdict.decision[rows])
    return tie


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
    bound = np.full(len(task), np.nan)
    clashes: dict[int, Clash] = {}
    kinds: dict[type[Certificate[Any]], dict[int, Certificate[Any]]] = {}
    for row, proof in enumerate(certificates):
        if proof is not None:
            kinds.setdefault(type(proof), {})[row] = proof
    for kind, proofs in kinds.items():
        model = kind.model(task)
        if model is None:
            continue
        # A decision that is not feasible proves nothing.
        false = _about_infeasible(model.rules.problem, proofs)
        sound = {row: proof for row, proof in proofs.items() if row not in false}
        for row, least in kind.bounds(model, sound).items():
            bound[row] = least
            if least == np.inf:
                clashes[row] = sound[row].clash(model, row)
    return Proof(torch.from_numpy(bound), clashes)


def _about_infeasible(problem: Problem, proofs: Mapping[int, Certificate[Any]]) -> set[int]:
    """The rows whose proofs are about decisions that are not feasible."""
    if type(problem).audit is Problem.audit:
        return set()  # its solver is our own
    about = [(row, one) for row, proof in proofs.items() for one in proof.decisions()]
    if not about:
        return set()
    return {about[k][0] for k in problem.audit(stacked([one for _, one in about]))}


def _passed_over(rules: Rules, prices: Tensor, solved: Solved) -> dict[int, str]:
    """Rows in which a decision that is passed over is better than all others, by their list."""
    why = "a plan takes over that was to be passed over"
    listed = rules.problem.decisions() if rules.passed_over else None
    failures: dict[int, str] = {}
    rivals: dict[int, Array] = {}  # the best decisions that are not passed over
    for row, passed in enumerate(rules.passed_over):
        own = solved.decisions[row].numpy()
        if row in solved.failures or not (passed == own).all(axis=1).any():
            continue
        others = np.empty((0, 1)) if listed is None else remaining(listed.numpy(), passed)
        if len(others):
            rivals[row] = others[int((others @ prices[row].numpy()).argmin())]
        else:
            failures[row] = why
    if rivals:
        best = solved.decisions.clone()
        best[list(rivals)] = torch.from_numpy(np.stack(list(rivals.values()))).to(best)
        worse = rules.beats(prices, solved.decisions, best).tolist()
        failures |= {row: why for row in rivals if worse[row]}
    return failures


def remaining(decisions: Array, passed_over: Array) -> Array:
    """Decisions but for some: `(D, m), (K, m) -> (D - K, m)`."""
    kept = np.ones(len(decisions), dtype=bool)
    for one in passed_over:
        kept &= (decisions != one).any(axis=1)
    rest: Array = decisions[kept]
    return rest


def _doubtful(rules: Rules, prices: Tensor, solved: Solved) -> dict[int, str]:
    """Rows whose optimum cannot be one, where the criterion depends on it."""
    if not rules.calls_solver:
        return {}
    doubts = rules.problem.audit(solved.decisions.numpy())
    blur: Tensor | float = 0.0
    if not rules.problem.binary:
        # To within its tolerance a decision is the same, and may be better or worse by as much.
        sizes = prices.abs() * solved.decisions.abs().clamp(min=1)
        blur = FEASIBILITY_TOLERANCE * sizes.sum(1)
        if solved.shortfall is not None:
            blur = blur.maximum(solved.shortfall)
    for decision in (rules.factual, rules.pivot):
        beaten = rules.beats(prices, decision, solved.decisions, blur)
        doubts |= dict.fromkeys(
            beaten.nonzero().flatten().tolist(),
            "the solver's answer is worse than a decision known to be feasible",
        )
    return doubts
