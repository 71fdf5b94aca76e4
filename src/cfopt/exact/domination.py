"""Plans that can never be best where all costs are above 0: a part of them is a plan, too.

With `y <= y_alt` in every column, and less in some,

    <theta, y_alt> - <theta, y> = sum_j theta_j (y_alt - y)_j > 0,

whatever the costs `theta > 0`. Where values are maximised, a plan that takes more is better. Since
all terms have one sign, no rounding can change that of their sum, and verification, which forgives
rounding elsewhere, forgives none here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import Rules
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash, Cut
from cfopt.exact.inequalities import Inequalities
from cfopt.exact.positive import is_positive
from cfopt.names import join_words
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question import Contrastive
from cfopt.question.quantifier import Quantifier

#: How many entries of a decision a message names.
_NAMED = 3


class PositiveTask(Inequalities):
    """A task whose prices all have one sign, that of the sense: above 0 where costs are minimised.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task.rules)

    @staticmethod
    def refusal(task: Task) -> str:
        """Why nothing can be dominated whatever the context, or ""."""
        rules = task.rules
        criterion, problem = rules.criterion, rules.problem
        if not is_positive(task.predictor):
            return "the predictor's costs are not known to be above 0 (see cfopt.Positive)"
        if not problem.integer_columns().all() or not problem.prices_are_costs:
            return "its decisions are not known to be whole numbers, each with a predicted cost"
        if not isinstance(criterion, Contrastive) or criterion.foil is not None:
            return "the question is not about one plan"
        if not criterion.multiples or Quantifier.SOME in criterion.multiples:
            return "the criterion may be met by some other decision"
        return ""

    def contradicts(self, row: int, cut: Cut) -> bool:
        """Whether a cut cannot hold: one of its `<prices, d> <= 0` is a sum of terms above 0.

        That of a decision which is a part of the plan, or of which the plan is one.
        """
        if not cut.belongs(self, row) or not self.multiples(cut.quantifier):
            return False
        directions = self.directions(row, cut.quantifier, cut.decision[None])
        sign = self.rules.problem.sense.sign
        return _above(sign * (self._pivot[row] - cut.decision)[None]) and _above(sign * directions)


@dataclass(frozen=True)
class DominationProof(Certificate[PositiveTask]):
    """A decision that is better than the plan at any prices of the sign that they have.

    Arguments:
        cut: the decision, in the role in which the plan would have to beat it.
    """

    cut: Cut

    @property
    def infeasible(self) -> bool:
        """Whether it is said to prove that there is none: always."""
        return True

    @classmethod
    def model(cls, task: Task) -> PositiveTask | None:
        """The task as signs of prices."""
        return None if PositiveTask.refusal(task) else PositiveTask(task)

    def bound(self, model: PositiveTask, row: int) -> float:
        """Infinite, if the decision is feasible and the plan cannot beat it."""
        decision = torch.from_numpy(self.cut.decision)[None]
        feasible = bool(model.rules.problem.is_feasible(decision).all())
        return np.inf if feasible and model.contradicts(row, self.cut) else 0.0

    def decisions(self) -> list[Array]:
        """The one that dominates."""
        return [self.cut.decision]

    def clash(self, model: PositiveTask, row: int) -> Clash:
        """The same, and why nothing can help."""
        problem = model.rules.problem
        names, plan = problem.cached_scene.names, model.rules.pivot[row].numpy()
        other = [names[j] for j in np.flatnonzero(self.cut.decision != plan)]
        listed = join_words(other, most=_NAMED)
        why = (
            f"it does without {listed}, and costs less whatever the context, since all costs are "
            "above 0"
            if problem.sense is Sense.MIN
            else f"it adds {listed}, and is worth more whatever the context, since all values are "
            "above 0"
        )
        return Clash(self.cut.decision[None], (), (), np.inf, why)


def dominations(task: Task) -> list[DominationProof | None]:
    """What proves that a row's plan can never be best, for each row; None where nothing does.

    One solve for each plan that is asked for, and none where the criterion is about the factual
    decision only.
    """
    model = DominationProof.model(task)
    if model is None:
        return [None] * len(task)
    plans = model.rules.pivot
    if Quantifier.EVERY in model.rules.criterion.multiples:
        cuts = [
            None if one is None else Cut(one, Quantifier.EVERY)
            for one in _dominating(task.rules.problem, plans)
        ]
    else:
        cuts = [*Cut.of_each(model.rules.factual.numpy(), Quantifier.GIVEN)]
    return [
        DominationProof(cut) if cut is not None and model.contradicts(row, cut) else None
        for row, cut in enumerate(cuts)
    ]


def _above(terms: Array) -> bool:
    """Whether some row has no entry below 0, and one above it: `(K, m)`."""
    return bool(((terms >= 0).all(axis=1) & (terms > 0).any(axis=1)).any())


def _dominating(problem: Problem, plans: Tensor) -> list[Array | None]:
    """A smallest decision within each plan, or a largest around it: `(B, m)`; None without one.

    Where costs are minimised a column outside of the plan costs more than all within it, so that
    no optimum uses one; where they are maximised, a column of the plan is worth more than all
    others.
    """
    rows, which = np.unique(plans.numpy(), axis=0, return_inverse=True)
    distinct = torch.from_numpy(rows)
    heavy = (distinct > 0.5) == (problem.sense is Sense.MAX)
    weight = 1.0 + distinct.abs().sum(1, keepdim=True).clamp(min=plans.shape[1])
    solved = problem.attempt(torch.where(heavy, weight, 1.0))
    found = solved.decisions.round()
    within = found <= distinct if problem.sense is Sense.MIN else found >= distinct
    better = within.all(1) & (found != distinct).any(1)  # NaN is not
    return [found[k].numpy() if better[k] else None for k in which.reshape(-1).tolist()]


def unforgiven(task: Task, rules: Rules, prices: Tensor, holds: Tensor) -> dict[int, str]:
    """Rows whose criterion holds by what is forgiven, although it cannot: why, by row.

    Arguments:
        task: the rows.
        rules: their rules on the host.
        prices: turned prices, `(B, m)` in float64.
        holds: whether the criterion seems to hold, `(B,)`.
    """
    rows = holds.nonzero().flatten()
    if not len(rows) or PositiveTask.refusal(task):
        return {}
    part = replace(task[rows], rules=rules[rows])
    failures = {}
    for row, proof in zip(rows.tolist(), dominations(part), strict=True):
        # Prices of the other sign would refute what is known of the predictor: they count.
        if proof is not None and bool((rules.problem.sense.sign * prices[row] >= 0).all()):
            other = rules.problem.describe(proof.cut.decision)
            failures[row] = f"the alternative is level with {other} to within rounding only"
    return failures
