"""A task with an affine predictor and a wish, and what can be proved about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Certificate, Clash, Cut
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.rivals import Rivals
from cfopt.question.quantifier import Quantifier

#: How many tasks about one plan are kept.
_KEPT = 1000


class WishTask:
    """A union over the plans of a foil of tasks about one plan.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        self.rules = task.rules.on_host()
        assert self.rules.wish is not None
        self.wish = self.rules.wish
        # The geometry is that of any plan: the factual one stands for them until one is chosen.
        self.affine = AffineTask(_about_factual(task))
        self._table: DecisionTable | None = None
        self._about: dict[bytes, AffineTask] = {}

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.rules.wish is None:
            return "its criterion is not about a wish; use CuttingPlane() or Auto()"
        reason = AffineTask.refusal(_about_factual(task))
        multiples = task.rules.criterion.multiples
        if not reason and list(multiples.values()) != [(-1.0,)]:
            reason = f"{type(task.rules.criterion).__name__} does not compare two decisions"
        return reason

    @cached_property
    def quantifier(self) -> Quantifier:
        """The decisions that a plan must beat."""
        (quantifier,) = self.rules.criterion.multiples
        return quantifier

    def plans(self, limit: int) -> DecisionTable | None:
        """Every plan that grants the wish, if there are no more than `limit`."""
        if self._table is None:
            listed = self.wish.plans.decisions(limit)
            self._table = None if listed is None else DecisionTable(self.affine, listed.numpy())
        return self._table

    def cut(self, rival: Array) -> Cut:
        """What a plan must meet to beat a rival."""
        return Cut(rival, self.quantifier)

    def about(self, plan: Array) -> AffineTask:
        """The task about one plan, `(m,)`; rows often look at the same ones, so some are kept."""
        key = plan.tobytes()
        if key not in self._about:
            if len(self._about) == _KEPT:
                self._about.clear()
            self._about[key] = self.affine.about(plan)
        return self._about[key]

    def admits(self, row: int, rival: Array) -> bool:
        """Whether a decision, if it is feasible, must be beaten."""
        if self.quantifier is Quantifier.GIVEN:
            return np.array_equal(rival, self.rules.factual[row].numpy())
        # With a margin, plans that grant the wish need not win against each other.
        return self.rules.margin == 0 or not self.wish.conditions.met(rival[None])[0]


def _about_factual(task: Task) -> Task:
    return replace(task, rules=task.rules.about(task.rules.factual))


@dataclass(frozen=True)
class WishProof(Certificate[WishTask]):
    """A proof for each plan that grants a wish: by one rival alone, by all of them, or by cuts.

    Arguments:
        limit: the most plans to list.
        rivals: decisions that every plan must beat, `(K, m)`.
        multipliers: those of the rivals' half-spaces, as in `Rivals`, for plans that no single
            rival puts far enough.
        branches: proofs by cuts for the plans for which that is not enough either.
        infeasible: whether they are said to prove that there is no explanation.
    """

    limit: int
    rivals: Array
    multipliers: dict[int, Array]
    branches: dict[int, CutProof]
    infeasible: bool = False

    @classmethod
    def model(cls, task: Task) -> WishTask | None:
        """The task as a union over plans."""
        return None if WishTask.refusal(task) else WishTask(task)

    def bound(self, model: WishTask, row: int) -> float:
        """The least bound of any plan."""
        table = model.plans(self.limit)
        if table is None or not all(model.admits(row, rival) for rival in self.decisions()):
            return 0.0
        rivals = Rivals(table, row)
        if len(self.rivals):
            rivals.meet(self.rivals)
        bounds = rivals.bounds
        for k, multipliers in self.multipliers.items():
            bounds[k] = max(bounds[k], rivals.bound(k, multipliers))
        for k, proof in self.branches.items():
            branch = model.about(table.decisions[k])
            bounds[k] = max(bounds[k], proof.bound(branch, row))
        return float(bounds.min())

    def decisions(self) -> list[Array]:
        """The rivals, and those of all cuts."""
        cuts = [decision for proof in self.branches.values() for decision in proof.decisions()]
        return [*self.rivals, *cuts]

    def clash(self, model: WishTask, row: int) -> Clash:
        """The limits that are involved anywhere."""
        table = model.plans(self.limit)
        assert table is not None
        clashes = [
            proof.clash(model.about(table.decisions[k]), row)
            for k, proof in self.branches.items()
            if proof.infeasible
        ]
        limits = dict.fromkeys(limit for clash in clashes for limit in clash.limits)
        locked = dict.fromkeys(name for clash in clashes for name in clash.locked)
        domain = model.affine.space.domain
        if domain is not None and len(clashes) < len(table):
            # Some plans are held back by what cannot move alone.
            for j in table.held_against(row, self.rivals):
                group = locked if domain.limits.immutable[j] else limits
                group[domain.limits.names[j]] = None
        radius = min((clash.radius for clash in clashes), default=np.inf)
        return Clash(np.empty((0, 1)), tuple(limits), tuple(locked), radius)
