"""Proofs about tree ensembles where some decision is enough, and decisions are not listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.certificate import Certificate, Clash
from cfopt.exact.regret import RegretBounds
from cfopt.exact.tree_proof import held
from cfopt.exact.tree_task import TreeTask
from cfopt.trees.boxes import BoxTree

#: How many boxes are checked at once.
_AT_ONCE = 4096


@dataclass(frozen=True)
class RegretProof(Certificate[TreeTask]):
    """A tree of boxes, in each of which no decision at all meets the criterion.

    A solve in each box says so, which is repeated: what is proved rests on the solver's own word
    that nothing is better than what it returns, or on the gap that it admits.

    Arguments:
        boxes: the tree; a reason of 0 says that a box is refuted.
        claim: the least loss of any explanation that they are said to prove.
    """

    boxes: BoxTree
    claim: float

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
        if not self.boxes.sound(ensemble.num_features, 1):
            return 0.0
        boxes, bounds = (
            CheckedBoxes(self.boxes, ensemble, model.cells(row)),
            RegretBounds(model, row),
        )
        open_boxes = np.flatnonzero(boxes.cost < self.claim)
        said = open_boxes[boxes.refuted[open_boxes]]
        least = float(boxes.cost[open_boxes[~boxes.refuted[open_boxes]]].min(initial=self.claim))
        for first in range(0, len(said), _AT_ONCE):
            rows = said[first : first + _AT_ONCE]
            costs = boxes.references(rows)
            at = bounds.references(costs)
            excess, _ = bounds.excess(at, boxes.spreads(rows, costs, at.weights, self.claim))
            least = min(least, float(boxes.cost[rows[~(excess > 0)]].min(initial=np.inf)))
        return least

    def decisions(self) -> list[Array]:
        """None: what is proved is about all of them."""
        return []

    def clash(self, model: TreeTask, row: int) -> Clash:
        """The features that cannot change."""
        return held(model, row, np.empty((0, 1)))
