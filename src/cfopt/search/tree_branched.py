"""Boxes of cells with the decisions that refute them: what a proof is made of."""

from __future__ import annotations

from cfopt._typing import Array
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import Tree
from cfopt.exact.tree_proof import Branch
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.trees.arrays import Ints
from cfopt.trees.branch import Branching


class Branched:
    """A branching with the decisions that its cuts are about.

    Arguments:
        branching: the boxes.
        model, row: what cuts are made of.
    """

    def __init__(self, branching: Branching, model: TreeTask, row: int) -> None:
        self.branching, self._model, self._row = branching, model, row
        self.cuts: list[Cut] = []
        self._known: set[tuple[Quantifier, bytes]] = set()
        self.limits: dict[int, Tree] = {}
        self.whole = True

    def add(self, decision: Array, quantifier: Quantifier) -> None:
        """Add the cuts of a decision."""
        self.cuts.append(Cut(decision.copy(), quantifier))
        self._known.add((quantifier, _key(decision)))
        made = self._model.cuts(self._row, quantifier, decision[None])
        for weight, limit, size in zip(*made, strict=True):
            self.branching.cuts.add(weight, limit, size)

    def knows(self, decision: Array, quantifier: Quantifier) -> bool:
        """Whether a decision has been cut with."""
        return (quantifier, _key(decision)) in self._known

    def within(self, low: Ints, high: Ints) -> Branched:
        """The same cuts among the cells of a box."""
        other = Branched(self.branching.within(low, high), self._model, self._row)
        other.cuts, other._known, other.whole = self.cuts, self._known, False
        return other

    def proof(self) -> Branch:
        """The boxes and cuts."""
        return Branch(tuple(self.cuts), self.branching.tree(), self.limits)


def _key(decision: Array) -> bytes:
    """The same for the same numbers, whatever the sign of a zero."""
    return (decision + 0.0).tobytes()
