"""One row of a search over the cells of trees, where the plans of a wish are too many to list."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np

from cfopt._typing import Array
from cfopt.engine.progress import Points
from cfopt.exact.regret import RegretBounds
from cfopt.exact.regret_proof import RegretProof
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.search.tree_branched import Branched
from cfopt.search.tree_regret import RegretRow
from cfopt.trees.boxes import BoxTree
from cfopt.trees.layout import Layout

#: How many plans are looked at before boxes are, and how many rivals are kept.
_PLANS, _RIVALS = 6, 64


class UnlistedWishRow(RegretRow):
    """The best cell of a row so far, and boxes in which no plan of a wish beats its rivals.

    Each plan that is met has its own nearest cell, as in `WishRow`. What stands in its way is a
    rival of all plans; that none beats these in a nearer cell is proved box by box, by solves under
    the wish.
    """

    def __init__(self, model: TreeTask, row: int, layout: Layout, limit: int) -> None:
        self._rivals: list[Array] = [_first_rival(model, row)]
        super().__init__(model, row, layout, limit)
        assert self.rules.wish is not None
        self._wish = self.rules.wish

    def run(self, deadline: float, starts: Iterator[Array]) -> Generator[None, None, Points]:
        """The nearest valid cell of any plan that is met, or the best until the deadline."""
        self._take_known(starts)
        while len(self._met) < _PLANS and self._in_time(deadline):
            met = len(self._met)
            for x in (self.model.origin[self.row], self.x):
                plan = self._best_plan(x)
                if plan is not None:
                    self._meet(plan, deadline)
                yield
            if len(self._met) == met:
                break
        return (yield from super().run(deadline, iter(())))

    def _best_plan(self, x: Array) -> Array | None:
        """The plan of the wish that is best in a context, `(p,) -> (m,)`."""
        prices = self.model.prices(self.model.contexts(x[None]))
        solved = self._wish.best(self.rules.problem, prices)
        plan: Array = solved.decisions[0].numpy()
        return None if solved.failures else plan

    def _about(self, decision: Array) -> Branched:
        """What one plan has to meet, as far as it is known."""
        branched = Branched(self._root.fresh(), self.model.about(decision), self.row)
        kind = Quantifier.EVERY if self._every else Quantifier.GIVEN
        for rival in self._rivals:
            if not (self._every and np.array_equal(rival, decision)):
                branched.add(rival, kind)
        return branched

    def _learn(self, decisions: list[Array]) -> bool:
        """Keep what plans could not beat, unless it grants the wish itself; whether that is new."""
        known = {rival.tobytes() for rival in self._rivals}
        new = [one for one in decisions if one.tobytes() not in known] if self._every else []
        if new:
            granted = self._wish.conditions.met(np.stack(new))
            new = [one for one, granting in zip(new, granted, strict=True) if not granting]
        new = new[: _RIVALS - len(self._rivals)]
        if new:
            self._rivals += new
            self._bounds = self._bounded()
        return bool(new)

    def _bounded(self) -> RegretBounds:
        return RegretBounds(self.model, self.row, np.stack(self._rivals))

    def _proof(self, boxes: BoxTree, bound: float) -> RegretProof:
        return replace(super()._proof(boxes, bound), rivals=np.stack(self._rivals))


def _first_rival(model: TreeTask, row: int) -> Array:
    """The factual decision, unless it grants a wish whose plans must beat others by a margin.

    Then the best of the others; where there is none, no answer is valid, and nothing is proved.
    """
    rules = model.rules
    factual: Array = rules.factual[row].numpy()
    every = bool(model.multiples(Quantifier.EVERY))
    assert rules.wish is not None
    if not (every and rules.margin > 0 and rules.wish.conditions.met(factual[None])[0]):
        return factual
    prices = model.prices(model.space.origin[row][None])
    solved = rules.wish.best_outside(rules.problem, prices)
    best: Array = solved.decisions[0].numpy()
    return factual if solved.failures else best
