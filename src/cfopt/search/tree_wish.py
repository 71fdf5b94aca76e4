"""One row of a search over the cells of trees, where a wish leaves the plan open."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from cfopt._typing import Array
from cfopt.engine.progress import Points
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.search.tree_branched import Branched
from cfopt.search.tree_row import TreeRow
from cfopt.trees.layout import Layout

#: How many boxes are looked at for each plan, until one of them has an answer.
_BRIEFLY = 300


class WishRow(TreeRow):
    """The best cell of a row so far, and what is proved of each plan that grants a wish.

    The contexts that grant a wish are those of all its plans together, and those of a plan are
    searched for like those of any alternative. A cell that is valid for one plan is the cutoff of
    all others, and what a plan could not beat is a cut of the next one from the start.
    """

    def __init__(self, model: TreeTask, row: int, layout: Layout, limit: int) -> None:
        super().__init__(model, row, layout, limit)
        wish = self.rules.wish
        plans = None if wish is None else wish.plans.decisions(limit)
        assert plans is not None  # as `TreeCells.refusal` has made sure
        here = model.prices(model.space.origin[row][None])[0].numpy()
        self._plans: Array = plans.numpy()
        #: The cheapest first.
        self._order = np.argsort(self._plans @ here, kind="stable").tolist()
        self._rivals: dict[bytes, Array] = {}
        factual = self.rules.factual[0].numpy()
        if not (self._every and self.rules.margin > 0 and self._grants(factual)):
            self._rivals[factual.tobytes()] = factual

    def run(self, deadline: float, starts: Iterator[Array]) -> Generator[None, None, Points]:
        """The nearest valid cell of any plan, or the best until the deadline."""
        self._take_known(starts)
        for k in self._order:
            if self.best is not None:
                break
            branched = self._about(k)
            yield from self._finish(branched, deadline, _BRIEFLY)
            self.looked += branched.branching.looked
            self._remember(branched)
        return (yield from super().run(deadline, iter(())))

    def _branches(self) -> Iterator[tuple[int, Branched]]:
        """All cells, for each plan."""
        for k in self._order:
            branched = self._about(k)
            yield k, branched
            self._remember(branched)

    def _about(self, k: int) -> Branched:
        """What one plan has to meet, as far as it is known."""
        plan = self._plans[k]
        branched = Branched(self._root.fresh(), self.model.about(plan), self.row)
        kind = Quantifier.EVERY if self._every else Quantifier.GIVEN
        for rival in self._rivals.values():
            if not (self._every and np.array_equal(rival, plan)):
                branched.add(rival, kind)
        return branched

    def _remember(self, branched: Branched) -> None:
        """Keep the rivals that have refuted boxes: the next plan has to beat them, too."""
        boxes = branched.branching.tree()
        each = max(1, branched.branching.cuts.count // max(1, len(branched.cuts)))
        reasons = np.unique(boxes.reason[(boxes.feature < 0) & (boxes.reason >= 0)] // each)
        for decision in (branched.cuts[int(c)].decision for c in reasons):
            self._rivals.setdefault(decision.tobytes(), decision)

    def _grants(self, decision: Array) -> bool:
        assert self.rules.wish is not None
        return bool(self.rules.wish.conditions.met(decision[None])[0])
