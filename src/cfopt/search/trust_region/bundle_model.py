"""The model of climbs among contexts: the slopes of a bundle of decisions at each point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array, Indices
from cfopt.search.trust_region.climb import Here, Outcome, StepPlan
from cfopt.search.trust_region.evaluator import Bundle, Evaluator
from cfopt.search.trust_region.step import (
    ELASTIC,
    TRIED,
    Region,
    nearest_in_box,
    nearest_l1,
    nearest_l2,
)


class _Cuts(NamedTuple):
    """Half-spaces `normals @ u <= limits` and boxes, `(R, K, p)`, `(R, K)` and `(R, p)`.

    What a unit of excess over the cuts of a row costs is `elastic`, `(R,)`.
    """

    normals: Array
    limits: Array
    lower: Array
    upper: Array
    elastic: Array


class BundleModel:
    """The criterion linearised for recent decisions; the loss as it is.

    The decisions that were best at recent points are kept as a bundle: with the newest alone the
    steps zigzag. At each point the criterion is linearised for all of them,
    `c_k + g_k (u - u_now) <= 0`; a step problem finds the nearest change that meets these within
    the trust region and the limits of contexts. Where one decision suffices, the nearest is chosen.

    Arguments:
        evaluator: of a task among contexts, whose proximity is `|u|^2` or `|u|_1`.
        width: how many decisions to keep.
    """

    def __init__(self, evaluator: Evaluator, width: int) -> None:
        self._evaluator = evaluator
        self._bundle = Bundle(evaluator.first.rival, width)
        self._l1 = evaluator.task.space.proximity.power == 1
        self._nearest = nearest_l1 if self._l1 else nearest_l2
        self._lower, self._upper, self._sums = evaluator.limits()

    def learn(self, rows: Indices, outcome: Outcome) -> NDArray[np.bool_]:
        """Keep further decisions."""
        return self._bundle.add(rows, outcome.there.rival)

    def plan(self, rows: Indices, here: Here) -> StepPlan:
        """Linearise, then solve a step problem for each row; a few where one decision suffices."""
        cuts = self._cuts(rows, here)
        plan = StepPlan.nothing(here.at)
        known = self._bundle.count(rows)
        every = np.flatnonzero(~here.one_suffices)
        self._step(plan, rows, every, [slice(0, count) for count in known[every]], cuts)
        distance = np.maximum(-cuts.limits, 0.0) / np.linalg.norm(cuts.normals, axis=2).clip(1e-300)
        distance[np.arange(distance.shape[1]) >= known[:, None]] = np.inf
        order = distance.argsort(axis=1)[:, :TRIED]
        for k in range(order.shape[1]):
            some = np.flatnonzero(here.one_suffices & (known > k))
            if not len(some):
                break
            chosen = order[some, k]
            if self._l1 or self._sums:
                self._step(plan, rows, some, [slice(j, j + 1) for j in chosen], cuts)
            else:
                _step_in_box(plan, some, chosen, cuts)
        return plan

    def _cuts(self, rows: Indices, here: Here) -> _Cuts:
        """The criterion for each decision of the bundle, to first order, and the boxes."""
        value, slope = self._evaluator.linearise(rows, here.at, self._bundle)
        radius = here.radius[:, None]
        return _Cuts(
            normals=slope,
            limits=np.einsum("rkp,rp->rk", slope, here.at) - value,
            lower=np.maximum(self._lower[rows], here.at - radius),
            upper=np.minimum(self._upper[rows], here.at + radius),
            elastic=ELASTIC * (1.0 + here.loss),
        )

    def _step(
        self,
        plan: StepPlan,
        rows: Indices,
        which: Indices,
        choices: list[slice],
        cuts: _Cuts,
    ) -> None:
        """Try to meet the chosen cuts of some of the rows of a plan."""
        u = plan.target[which]
        loss, miss, price = np.full((3, len(which)), np.inf)
        for k, (i, choice) in enumerate(zip(which.tolist(), choices, strict=True)):
            normals, limits = cuts.normals[i, choice], cuts.limits[i, choice]
            box, sums = (cuts.lower[i], cuts.upper[i]), self._sums[rows[i]] if self._sums else None
            step = self._nearest(Region(normals, limits, *box, cuts.elastic[i], sums))
            if step is not None:
                u[k], price[k] = step.v, step.price
                miss[k] = (normals @ step.v - limits).max(initial=0.0)
        solved = np.isfinite(miss)
        loss[solved] = (np.abs(u) if self._l1 else np.square(u)).sum(axis=1)[solved]
        plan.improve(which, u, loss, miss, price, cuts.elastic[which])


def _step_in_box(plan: StepPlan, which: Indices, chosen: Indices, cuts: _Cuts) -> None:
    """The same for one cut each and squares in a box, all at once."""
    normals, limits, elastic = (
        cuts.normals[which, chosen],
        cuts.limits[which, chosen],
        cuts.elastic[which],
    )
    u, price = nearest_in_box(normals, limits, cuts.lower[which], cuts.upper[which], elastic)
    miss = np.maximum((normals * u).sum(axis=1) - limits, 0.0)
    price = np.where(price >= elastic, elastic * miss, price)  # the cut cannot be met
    plan.improve(which, u, np.square(u).sum(axis=1), miss, price, elastic)
