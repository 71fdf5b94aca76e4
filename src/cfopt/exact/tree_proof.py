"""Proofs about tree ensembles: every cell that is nearer than a bound is refuted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.engine.wish import Wish
from cfopt.exact.certificate import Certificate, Clash, Cut
from cfopt.exact.geometry import Tree
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.trees.boxes import BoxTree, Check, proved


@dataclass(frozen=True)
class Branch:
    """Boxes that are refuted by cuts.

    Arguments:
        cuts: in the order in which boxes refer to them; one with several inequalities counts as
            several.
        boxes: the tree of boxes.
        limits: multipliers of limits on sums of features, by the boxes that they show to be far.
        asked: boxes of one cell, in which the model itself refutes the criterion.
    """

    cuts: tuple[Cut, ...]
    boxes: BoxTree
    limits: dict[int, Tree] = field(default_factory=dict)
    asked: tuple[int, ...] = ()

    def floors(self, model: TreeTask, row: int) -> Array:
        """What boxes cost at least for other reasons than cuts: `(N,)`."""
        floors, boxes = model.floors(row, self.boxes, self.limits), self.boxes
        cells, among = model.cells(row), range(len(floors))
        for box in self.asked:
            cell = boxes.only_cell(box, model.thresholds, cells) if box in among else None
            if cell is not None and model.refutes(row, cells.context(cell)):
                floors[box] = np.inf
        return floors


@dataclass(frozen=True)
class TreeProof(Certificate[TreeTask]):
    """A tree of boxes; or one for each decision that could meet the criterion.

    Arguments:
        branches: where some decision is enough, one for each that may be, by its number in the list
            of these; of a wish, one for each plan that grants it; otherwise one, with the number
            -1.
        claim: the least loss of any explanation that they are said to prove.
        limit: the most decisions or plans to list, where they are.
    """

    branches: dict[int, Branch]
    claim: float
    limit: int = 0

    @property
    def infeasible(self) -> bool:
        """Whether it is said that there is no explanation."""
        return self.claim == np.inf

    @classmethod
    def model(cls, task: Task) -> TreeTask | None:
        """The task as cells and cuts; a ball around answers only excludes some of them."""
        if task.variation is not None and task.variation.off_by is not None:
            task = replace(task, variation=None)
        return None if TreeTask.refusal(task) else TreeTask(task)

    def bound(self, model: TreeTask, row: int, check: Check = proved) -> float:
        """What the boxes prove when every cut is made and every sum is added again.

        Arguments:
            model, row: the row that the proof is about.
            check: how boxes are checked: compiled, or by `cfopt.trees.plain_check.plainly_proved`.
        """
        rules = model.rules
        if rules.wish is not None:
            return self._bound_of_plans(model, row, rules.wish, check)
        if Quantifier.SOME not in rules.criterion.multiples:
            return self._branch_bound(model, row, -1, None, check)
        listed = rules.problem.decisions(self.limit)
        if listed is None:
            return 0.0
        candidates = listed.numpy()[model.may_suffice(row, listed.numpy())]
        bounds = (
            self._branch_bound(model, row, k, choice, check)
            for k, choice in enumerate(model.choices(candidates))
        )
        return min(bounds, default=np.inf)

    def _bound_of_plans(self, model: TreeTask, row: int, wish: Wish, check: Check) -> float:
        """The least bound of any plan that grants a wish."""
        plans, rivals = wish.plans.decisions(self.limit), self.decisions()
        if plans is None or not rivals:
            return 0.0
        # With a margin, plans that grant the wish need not win against each other.
        every = Quantifier.EVERY in model.rules.criterion.multiples
        if every and model.rules.margin > 0 and wish.conditions.met(np.stack(rivals)).any():
            return 0.0
        bounds = (
            self._branch_bound(model.about(plan), row, k, None, check)
            for k, plan in enumerate(plans.numpy())
        )
        return min(bounds, default=0.0)

    def _branch_bound(
        self, model: TreeTask, row: int, k: int, some: Array | None, check: Check
    ) -> float:
        branch = self.branches.get(k)
        if branch is None or not branch.cuts:
            return 0.0
        if not all(
            model.multiples(cut.quantifier) and cut.belongs(model, row, some) for cut in branch.cuts
        ):
            return 0.0
        parts = [
            model.cuts(row, quantifier, np.stack([cut.decision for cut in cuts]))
            for quantifier, cuts in groupby(branch.cuts, lambda cut: cut.quantifier)
        ]
        weights, limits = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return check(
            branch.boxes,
            self.claim,
            model.ensemble,
            model.cells(row),
            weights,
            limits,
            branch.floors(model, row),
        )

    def decisions(self) -> list[Array]:
        """Those of all cuts, but for those that are enough, which the problem itself lists."""
        cuts = [cut for branch in self.branches.values() for cut in branch.cuts]
        return [cut.decision for cut in cuts if cut.quantifier is not Quantifier.SOME]

    def clash(self, model: TreeTask, row: int) -> Clash:
        """The decisions whose cuts refute boxes, and the features that cannot change."""
        used: dict[bytes, Array] = {}
        if set(self.branches) == {-1}:
            branch = self.branches[-1]
            each = len(model.cuts(row, branch.cuts[0].quantifier, branch.cuts[0].decision[None])[1])
            reasons = np.unique(branch.boxes.reason[branch.boxes.feature < 0])
            for c in {int(reason) // each for reason in reasons if reason >= 0}:
                used[branch.cuts[c].decision.tobytes()] = branch.cuts[c].decision
        decisions = np.array(list(used.values()))
        return held(model, row, decisions.reshape(len(used), -1) if used else np.empty((0, 1)))


def held(model: TreeTask, row: int, decisions: Array) -> Clash:
    """What contradicts each other: some decisions `(K, m)`, and features that cannot change."""
    domain = model.space.domain
    names = () if domain is None else domain.limits.names
    all_cells = [len(edges) + 1 for edges in model.thresholds]
    limited = np.diff(model.cells(row).start) < all_cells
    locked = np.zeros_like(limited) if domain is None else domain.limits.immutable
    return Clash(
        decisions,
        tuple(names[int(f)] for f in np.flatnonzero(limited & ~locked)),
        tuple(names[int(f)] for f in np.flatnonzero(limited & locked)),
        np.inf,
    )
