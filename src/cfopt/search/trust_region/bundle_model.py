"""The model of climbs among contexts: the slopes of a bundle of decisions at each point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Indices
from cfopt.search.trust_region.climb import Outcome, Positions, StepPlan
from cfopt.search.trust_region.evaluator import Bundle, Evaluator
from cfopt.search.trust_region.step import (
    ELASTIC,
    TRIED,
    Region,
    nearest_in_box,
    nearest_l1,
    nearest_l2,
)


class BundleModel:
    """The criterion linearised for recent decisions; the loss as it is.

    The decisions that were best at recent points are kept as a bundle: with the newest alone the
    steps zigzag. At each point the criterion is linearised for all of them,
    `c_k + g_k (u - u_now) <= 0`; a step problem finds the nearest change that meets these within
    the trust region and the limits of contexts. Where one decision suffices, the nearest is chosen.

    Arguments:
        evaluator: the evaluator of a task among contexts, whose proximity is `|u|^2` or `|u|_1`.
        width: how many decisions to keep.
    """

    def __init__(self, evaluator: Evaluator, width: int) -> None:
        self._evaluator = evaluator
        self._bundle = Bundle(evaluator.first.rival, width)
        self._l1 = evaluator.task.space.proximity.power == 1
        self._lower, self._upper, self._sums = evaluator.limits()

    def learn(self, rows: Indices, outcome: Outcome) -> NDArray[np.bool_]:
        """Keep further decisions."""
        return self._bundle.add(rows, outcome.there.rival)

    def plan(self, rows: Indices, here: Positions) -> StepPlan:
        """Linearise, then solve a step problem for each row; a few where one decision suffices."""
        value, normals = self._evaluator.linearise(rows, here.at, self._bundle)
        limits = np.einsum("rkp,rp->rk", normals, here.at) - value
        lower = np.maximum(self._lower[rows], here.at - here.radius[:, None])
        upper = np.minimum(self._upper[rows], here.at + here.radius[:, None])
        elastic, known = ELASTIC * (1.0 + here.loss), self._bundle.count(rows)
        distance = np.maximum(-limits, 0.0) / np.linalg.norm(normals, axis=2).clip(1e-300)
        distance[np.arange(distance.shape[1]) >= known[:, None]] = np.inf
        nearest = distance.argsort(axis=1)[:, :TRIED]
        plan = StepPlan.nothing(here.at)
        simple = here.one_suffices & (not (self._l1 or self._sums))
        for i in np.flatnonzero(~simple).tolist():
            sums = self._sums[rows[i]] if self._sums else None
            region = Region(normals[i], limits[i], lower[i], upper[i], elastic[i], sums)
            choices = [slice(0, known[i])]
            if here.one_suffices[i]:
                choices = [slice(k, k + 1) for k in nearest[i, : known[i]].tolist()]
            for choice in choices:
                self._try(plan, i, region.only(choice))
        for k in range(nearest.shape[1]):  # one cut each, in a box: all rows at once
            some = np.flatnonzero(simple & (known > k))
            if not len(some):
                break
            cut = (some, nearest[some, k])
            region = Region(normals[cut], limits[cut], lower[some], upper[some], elastic[some])
            u, price = nearest_in_box(region)
            miss = np.maximum((region.normals * u).sum(axis=1) - region.limits, 0.0)
            # Where the cut cannot be met, the price is that of the excess.
            price = np.where(price >= region.elastic, region.elastic * miss, price)
            plan.improve(some, u, np.square(u).sum(axis=1), miss, price, region.elastic)
        return plan

    def _try(self, plan: StepPlan, i: int, region: Region) -> None:
        """Plan the nearest change in a region, if it promises more than what is planned."""
        step = (nearest_l1 if self._l1 else nearest_l2)(region)
        if step is not None:
            loss = (np.abs(step.v) if self._l1 else np.square(step.v)).sum()
            miss = (region.normals @ step.v - region.limits).max(initial=0.0)
            plan.improve(i, step.v, loss, miss, step.price, region.elastic)
