"""Proofs about tree ensembles where some decision, or plan of a wish, is enough; without a list."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash
from cfopt.exact.geometry import Tree
from cfopt.exact.regret import RegretBounds
from cfopt.exact.tree_proof import held
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.trees.boxes import BoxTree

#: How many boxes are checked at once.
_AT_ONCE = 4096


@dataclass(frozen=True)
class RegretProof(Certificate[TreeTask]):
    """A tree of boxes, in each of which no decision at all meets the criterion.

    A solve in each box says so, which is repeated: what is proved rests on the solver's own word
    that nothing is better than what it returns, or on the gap that it admits.

    Arguments:
        boxes: the tree; the reason of a box that is refuted is the number of an inequality.
        claim: the least loss of any explanation that they are said to prove.
        rivals: for a wish, decisions that no plan which grants it beats in these boxes, `(K, m)`.
        limits: multipliers of limits on sums of features, by the boxes that they show to be far.
    """

    boxes: BoxTree
    claim: float
    rivals: Array | None = None
    limits: dict[int, Tree] = field(default_factory=dict)

    @property
    def infeasible(self) -> bool:
        """Whether it is said that there is no explanation."""
        return self.claim == np.inf

    @classmethod
    def model(cls, task: Task) -> TreeTask | None:
        """The task as cells and cuts."""
        return None if TreeTask.refusal(task) or RegretBounds.refusal(task) else TreeTask(task)

    def bound(self, model: TreeTask, row: int) -> float:
        """What the boxes prove when every range is found and every solve is made again."""
        from cfopt.trees.spread_check import CheckedBoxes

        ensemble = model.ensemble
        if not self._fits(model, row):
            return 0.0
        bounds = RegretBounds(model, row, self.rivals)
        if not self.boxes.sound(ensemble.num_features, bounds.count):
            return 0.0
        boxes = CheckedBoxes(self.boxes, ensemble, model.cells(row))
        cost = np.maximum(boxes.cost, model.floors(row, self.boxes, self.limits)[boxes.number])
        open_boxes = np.flatnonzero(cost < self.claim)
        said = open_boxes[boxes.refuted[open_boxes]]
        least = float(cost[open_boxes[~boxes.refuted[open_boxes]]].min(initial=self.claim))
        for first in range(0, len(said), _AT_ONCE):
            rows = said[first : first + _AT_ONCE]
            costs = boxes.references(rows)
            at = bounds.references(costs, boxes.reason[rows].astype(np.intp))
            excess, _ = bounds.excess(at, boxes.spreads(rows, costs, at.weights, self.claim))
            least = min(least, float(cost[rows[~(excess > 0)]].min(initial=np.inf)))
        return least

    def _fits(self, model: TreeTask, row: int) -> bool:
        """Whether the criterion is about some decision or, of a wish, about these rivals."""
        wish = model.rules.wish
        if wish is None or self.rivals is None:
            return wish is None and self.rivals is None
        if not len(self.rivals):
            return False
        if Quantifier.EVERY not in model.rules.criterion.multiples:
            return bool((self.rivals == model.rules.factual[row].numpy()).all())
        # With a margin, plans that grant the wish need not win against each other.
        return model.rules.margin == 0 or not wish.conditions.met(self.rivals).any()

    def decisions(self) -> list[Array]:
        """The rivals; of others none, since what is proved is about all of them."""
        return [] if self.rivals is None else list(self.rivals)

    def clash(self, model: TreeTask, row: int) -> Clash:
        """The features that cannot change."""
        return held(model, row, np.empty((0, 1)))
