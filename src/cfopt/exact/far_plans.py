"""How near an answer to a wish can be at the most, where the plans that grant it are not listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.certificate import Certificate, Clash
from cfopt.exact.wish_task import WishTask
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.wishes import Condition

#: How often a ratio is improved; it usually takes two or three solves.
_ROUNDS = 20
#: By what fraction of its terms a least value may be below 0 but for rounding.
_ROUNDING = 1e-9
#: A length beyond which nothing is asked for.
_FAR = 1e6


@dataclass(frozen=True)
class Reference:
    """What plans are compared with, to bound how far away they are.

    A plan that is best at `theta0 + V u` is no worse there than any mean `r` of decisions, and with
    any point `c` and `s_j = |V_j|_dual`

        <theta0, y - r> <= |u| |V'(y - r)|_dual <= |u| (|V'(c - r)|_dual + sum_j s_j |y_j - c_j|)

    For columns between bounds, `|y_j - c_j|` is at most what connects its values at the bounds,
    which it is itself where y_j is binary. So the least ratio of the two sides, over all plans, is
    that of two linear functions, and bounds `|u|`.

    Arguments:
        rivals: decisions, `(K, m)`.
        weights: >= 0, not all 0, `(K,)`: r is the mean of the rivals.
        center: c, `(m,)`.
    """

    rivals: Array
    weights: Array
    center: Array


class Ratio:
    """The two linear functions of a plan: `gain @ y + level` and `reach @ y + start`."""

    def __init__(self, model: WishTask, row: int, reference: Reference) -> None:
        affine, problem = model.affine, model.rules.problem
        lower, upper = problem.column_bounds()
        mean = reference.weights @ reference.rivals / reference.weights.sum()
        self.gain: Array = affine.prices0[row]
        self.level = -float(self.gain @ mean)
        steepness = affine.norm.dual(affine.slopes)  # (m,)
        below, above = np.abs(lower - reference.center), np.abs(upper - reference.center)
        moves = steepness > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(upper > lower, (above - below) / (upper - lower), 0.0)
        self.reach: Array = np.where(moves, steepness * slope, 0.0)
        start = np.where(moves, steepness * (below - slope * lower), 0.0)
        away = affine.norm.dual((reference.center - mean) @ affine.slopes)
        self.start = float(start.sum() + away)

    def of(self, plan: Array) -> float:
        """The ratio of one plan; inf where nothing that moves is involved."""
        value, reach = float(self.gain @ plan) + self.level, float(self.reach @ plan) + self.start
        return value / reach if reach > 0 else np.inf if value > 0 else 0.0

    def least(self, plans: Problem, length: float) -> tuple[Array | None, bool]:
        """The plan for which `length` is the most too far, and whether it is so for none.

        None where the solver fails.
        """
        prices = self.gain - length * self.reach
        solved = plans.attempt(plans.sense.sign * torch.from_numpy(prices)[None])
        if solved.failures:
            return None, False
        plan: Array = solved.decisions[0].numpy()
        shortfall = 0.0 if solved.shortfall is None else float(solved.shortfall[0])
        terms = np.abs(self.gain) @ np.abs(plan) + abs(self.level)
        value = float(prices @ plan) + self.level - length * self.start - shortfall
        return plan, bool(value >= -_ROUNDING * terms)


def others(model: WishTask, plans: list[Array]) -> Problem | None:
    """The plans that grant the wish but for some, which are binary; None if there are none.

    InputError if such plans cannot be asked for.
    """
    wished, deadline = model.wish.plans, model.rules.problem.deadline
    signs = [
        Condition(
            {j: -1.0 if taken else 1.0 for j, taken in enumerate(plan > 0.5)},
            lower=1.0 - float((plan > 0.5).sum()),
        )
        for plan in plans
    ]
    if not signs:
        return wished.until(deadline)
    rest = wished.narrowed(Conditions.join([one.conditions(wished) for one in signs]))
    return None if rest is None else rest.exact().until(deadline)


def farthest(
    model: WishTask, row: int, reference: Reference, plans: Problem
) -> tuple[float, Array | None]:
    """The largest length within which no plan is best, and the plan that comes nearest to be.

    By Dinkelbach's method: the plan of the least value at a ratio has a smaller one.
    """
    ratio, length, nearest = Ratio(model, row, reference), 0.0, None
    plan, _ = ratio.least(plans, 0.0)
    for _ in range(_ROUNDS):
        if plan is None:
            break
        nearest = plan
        length = (1 - _ROUNDING) * max(0.0, ratio.of(plan))
        if not 0 < length < np.inf:
            return 0.0, nearest
        plan, sure = ratio.least(plans, length)
        if sure:
            return length, nearest
    return 0.0, nearest


@dataclass(frozen=True)
class FarPlans(Certificate[WishTask]):
    """Proofs for some plans that grant a wish, and a length within which no other is best.

    Arguments:
        looked: plans, each with a proof of its own, `(m,)`.
        reference: what the others are compared with.
        length: the length, in the norm of the proximity.
    """

    looked: tuple[tuple[Array, CutProof], ...]
    reference: Reference
    length: float
    infeasible: bool = False

    @classmethod
    def model(cls, task: Task) -> WishTask | None:
        """The task as a union over plans."""
        return None if WishTask.refusal(task) else WishTask(task)

    def bound(self, model: WishTask, row: int) -> float:
        """The least of the bounds of plans that were looked at, and of all others."""
        reference, looked = self.reference, [plan for plan, _ in self.looked]
        sound = model.rules.margin == 0 and not model.affine.varied
        sound &= bool((reference.weights >= 0).all()) and bool(reference.weights.sum() > 0)
        sound &= all(model.admits(row, rival) for rival in reference.rivals)
        if not sound or not self.length > 0:
            return 0.0
        each = [proof.bound(model.about(plan), row) for plan, proof in self.looked]
        try:
            plans = others(model, looked)
        except InputError:
            return 0.0
        if plans is None:
            return float(min(each))
        _, sure = Ratio(model, row, reference).least(plans, min(self.length, _FAR))
        far = min(self.length, _FAR) ** model.affine.norm.power
        return float(min([far, *each])) if sure else 0.0

    def decisions(self) -> list[Array]:
        """The rivals, and those of all cuts."""
        cuts = [decision for _, proof in self.looked for decision in proof.decisions()]
        return [*self.reference.rivals, *cuts]

    def clash(self, model: WishTask, row: int) -> Clash:
        """Nothing is said to be impossible."""
        return Clash(np.empty((0, 1)), (), (), np.inf)
