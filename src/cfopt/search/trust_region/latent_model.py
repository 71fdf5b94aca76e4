"""The model of climbs among codes: the linearised task, solved with the decisions it calls for."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt._typing import Array, Indices
from cfopt.engine.rules import Rules
from cfopt.search.trust_region.climb import Outcome, Positions, StepPlan
from cfopt.search.trust_region.evaluator import (
    Bundle,
    Evaluator,
    host,
)
from cfopt.search.trust_region.step import (
    ELASTIC,
    TRIED,
    Region,
    cut_cost,
    solve_step,
    strict,
)
from cfopt.search.trust_region.surrogate import Surrogate

#: How far inside its limits the criterion is aimed at, as a fraction of its terms.
_INSIDE = 2e-5
#: How often the linearised task is asked for another decision before a step is taken.
_ROUNDS = 12
#: How often a refreshed surrogate may call for the slopes of further cuts before a step is taken.
_REFRESHED = 3
#: How many decisions a row keeps.
_WIDTH = 60
#: By which fractions of a typical price factual decisions are made more expensive, to see what
#: comes next.
_DISCOURAGED = (0.1, 0.3, 1.0, 3.0)
#: A cut binds if its multiplier is more than this fraction of the largest.
_BINDING = 1e-9


class LatentModel:
    """Solves the linearised task as a whole before anything is predicted.

    A prediction decodes a whole context, and costs far more than a solve: so the cuts are found
    with the solver on linearised prices, until it has no other decision to offer.

    Arguments:
        evaluator: the evaluator of a task in a latent space.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._bundle = Bundle(evaluator.first.rival, _WIDTH)
        self.surrogate = Surrogate(evaluator)
        self._look_around(np.flatnonzero(evaluator.first.one_suffices))

    def learn(self, rows: Indices, outcome: Outcome) -> NDArray[np.bool_]:
        """Keep further decisions, and let the surrogate agree with the prices that were seen."""
        self.surrogate.learn(rows, outcome)
        return self._bundle.add(rows, outcome.there.rival)

    def plan(self, rows: Indices, here: Positions) -> StepPlan:
        """The best steps of surrogates that are true where it counts: at the cuts that bind.

        Refreshed, a surrogate may find that others bind, whose slopes are then asked for in turn.
        """
        surrogate = self.surrogate
        z = self._evaluator.points(rows, here.at)
        new = np.flatnonzero(np.isnan(surrogate.floor[rows]))
        surrogate.measure(rows[new], z[torch.from_numpy(new)])
        plan = StepPlan.nothing(here.at)
        binding = self._solve(np.arange(len(rows)), rows, here, plan)
        stale = np.flatnonzero(surrogate.stale[rows])
        surrogate.forget(rows[stale])
        for k in range(_REFRESHED):
            cuts = {i: surrogate.unseen(int(rows[i]), binding[i]) for i in stale.tolist()}
            # At first also where no cut binds, for the slope of the loss.
            stale = np.array([i for i in cuts if k == 0 or len(cuts[i])], dtype=np.intp)
            if not len(stale):
                break
            # Together as many slopes each, so that none is computed in vain.
            for count in sorted({len(cuts[i]) for i in stale.tolist()}):
                alike = np.array([i for i in stale.tolist() if len(cuts[i]) == count])
                slopes = np.stack([cuts[i] for i in alike.tolist()])
                surrogate.refresh(rows[alike], z[torch.from_numpy(alike)], slopes)
            binding |= self._solve(stale, rows, here, plan)
        plan.fresh[:] = surrogate.fresh[rows]
        return plan

    def _solve(
        self, which: Indices, rows: Indices, here: Positions, plan: StepPlan
    ) -> dict[int, Array]:
        """Solve the linearised task for some rows of a plan; the cuts that bind, `(c, m)` each."""
        state = self.surrogate.state
        binding: dict[int, Array] = {}
        signed = state.prices[rows].min(axis=1) >= 0
        for _ in range(_ROUNDS):
            for i in which.tolist():
                binding[i] = self._step(i, int(rows[i]), here, plan)
            chosen, move = rows[which], plan.target[which] - here.at[which]
            prices = state.prices[chosen] + np.einsum("rmn,rn->rm", state.jacobian[chosen], move)
            # Costs of one sign stay so: the linear model may cross 0 where the predictor cannot.
            prices = np.where(signed[which, None], np.maximum(prices, 0.0), prices)
            which = which[self._ask(chosen, prices)]
            if not len(which):
                break
        return binding

    def _ask(self, rows: Indices, prices: Array) -> NDArray[np.bool_]:
        """Solve for linearised prices; which rows have got another decision to reckon with."""
        rules = self._rules(rows)
        if not rules.calls_solver:
            return np.zeros(len(rows), dtype=bool)
        solved = rules.rival(torch.from_numpy(prices).to(rules.factual))
        self._evaluator.solves[rows] += 1
        return self._bundle.add(rows, solved.decisions)

    def _step(self, i: int, row: int, here: Positions, plan: StepPlan) -> Array:
        """Plan the step of one row with the decisions kept so far; the cuts that bind, `(c, m)`."""
        state, unit = self.surrogate.state, self._evaluator.unit[row]
        decisions = self._bundle.of(row)
        prices = torch.from_numpy(state.prices[row]).to(decisions).expand_as(decisions)
        directions = host(self._rules(np.full(len(decisions), row)).direction(prices, decisions))
        directions = directions[np.abs(directions).max(axis=1) > 0]  # the alternative itself
        normals = directions @ state.jacobian[row] / unit
        limits = -(directions @ state.prices[row]) / unit
        curvature, slope = strict(state.curvature[row]), state.slope[row]
        choices = [slice(None)]
        if here.one_suffices[i]:
            order = cut_cost(curvature, slope, normals, limits).argsort(kind="stable")
            choices = [slice(k, k + 1) for k in order[:TRIED].tolist()]
        plan.reset(i, here.at[i])
        binding: Array = directions[:0]
        elastic = ELASTIC * (1.0 + here.loss[i])
        box = np.full(len(slope), here.radius[i])
        region = Region(normals, limits - _INSIDE, -box, box, elastic)
        for choice in choices:
            step = solve_step(curvature, slope, region.only(choice))
            if step is None:
                continue
            loss = here.loss[i] + slope @ step.v + 0.5 * step.v @ state.curvature[row] @ step.v
            miss = (normals[choice] @ step.v - limits[choice]).max(initial=0.0)
            if plan.improve(i, here.at[i] + step.v, loss, miss, step.price, elastic):
                least = _BINDING * step.multipliers.max(initial=0.0)
                binding = directions[choice][step.multipliers > least]
        return binding

    def _look_around(self, rows: Indices) -> None:
        """Keep some decisions that make less and less use of the factual one.

        The best decision, which at home is the factual one itself, is no use for a first step
        where one decision is enough.
        """
        if not len(rows):
            return
        rules = self._rules(rows)
        prices = self._evaluator.first.prices[self._evaluator.index(rows)]
        used = rules.factual.abs() / rules.factual.abs().amax(1, keepdim=True).clamp(min=1e-12)
        size = prices.abs().mean(1, keepdim=True)
        for weight in _DISCOURAGED:
            found = rules.optimum(prices + weight * size * used.to(prices))
            self._bundle.add(rows, found.decisions)
        self._evaluator.solves[rows] += len(_DISCOURAGED)

    def _rules(self, rows: Indices) -> Rules:
        return self._evaluator.task.rules[self._evaluator.index(rows)]
