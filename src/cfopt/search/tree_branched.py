"""Boxes of cells with the decisions that refute them: what a proof is made of."""

from __future__ import annotations

import numpy as np
import torch

from cfopt._typing import Array
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import Tree
from cfopt.exact.tree_proof import Branch
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.trees.arrays import Ints
from cfopt.trees.branch import Branching

#: By what fraction of its size a cut must be broken to be added, so that boxes are refuted by it.
_BROKEN = 1e-9


class ListedRivals:
    """The cuts of decisions that can be listed, all of which must be beaten.

    Most cells that a search meets are refuted by one of them, which takes a product of matrices in
    place of a solve. What none of them refutes is for the solver to judge.

    Arguments:
        model, row: what cuts are made of.
        decisions: feasible ones, `(D, m)`.
    """

    def __init__(self, model: TreeTask, row: int, decisions: Array) -> None:
        self.decisions, self._base = decisions, model.ensemble.base
        self._weights, self._limits, self._sizes = model.cuts(row, Quantifier.EVERY, decisions)
        self._each = len(self._limits) // len(decisions)
        self._tensor, self._open = torch.from_numpy(self._weights), self._limits.copy()

    def worst(self, costs: Array) -> int | None:
        """The number of the decision whose cut is broken by the most, None if none is: `(n,)`.

        Each is named once: should boxes see it otherwise, for rounding, the solver has the word.
        """
        values = (self._tensor @ torch.from_numpy(costs - self._base)).numpy()
        excess = (values - self._open) / self._sizes
        worst = int(excess.argmax())
        if not excess[worst] > _BROKEN:
            return None
        self._open[self._cuts_of(worst // self._each)] = np.inf
        return worst // self._each

    def cuts(self, k: int) -> tuple[Array, Array, Array]:
        """The cuts of a decision: weights `(C, n)`, limits and sizes `(C,)`."""
        own = self._cuts_of(k)
        return self._weights[own], self._limits[own], self._sizes[own]

    def _cuts_of(self, k: int) -> slice:
        return slice(k * self._each, (k + 1) * self._each)


class Branched:
    """A branching with the decisions that its cuts are about.

    Arguments:
        branching: the boxes.
        model, row: what cuts are made of.
        rivals: decisions that must be beaten, `(D, m)`, where they can be listed.
    """

    def __init__(
        self, branching: Branching, model: TreeTask, row: int, rivals: Array | None = None
    ) -> None:
        self.branching, self._model, self._row = branching, model, row
        self._rivals = None if rivals is None else ListedRivals(model, row, rivals)
        self.cuts: list[Cut] = []
        self._known: set[tuple[Quantifier, bytes]] = set()
        self.limits: dict[int, Tree] = {}
        #: Cells that are not valid, though they meet all cuts, and the boxes that hold one of them.
        self.refuted: set[bytes] = set()
        self.asked: list[int] = []
        self.whole = True

    def add(self, decision: Array, quantifier: Quantifier) -> None:
        """Add the cuts of a decision."""
        made = self._model.cuts(self._row, quantifier, decision[None])
        self._add(decision, quantifier, made)

    def refute(self, costs: Array) -> bool:
        """Add the cuts of a listed rival that costs break, if there is one: `(n,)`."""
        rivals = self._rivals
        k = None if rivals is None else rivals.worst(costs)
        if rivals is None or k is None or self.knows(rivals.decisions[k], Quantifier.EVERY):
            return False
        self._add(rivals.decisions[k], Quantifier.EVERY, rivals.cuts(k))
        return True

    def _add(
        self, decision: Array, quantifier: Quantifier, made: tuple[Array, Array, Array]
    ) -> None:
        self.cuts.append(Cut(decision.copy(), quantifier))
        self._known.add((quantifier, _key(decision)))
        for weight, limit, size in zip(*made, strict=True):
            self.branching.cuts.add(weight, limit, size)

    def knows(self, decision: Array, quantifier: Quantifier) -> bool:
        """Whether a decision has been cut with."""
        return (quantifier, _key(decision)) in self._known

    def within(self, low: Ints, high: Ints) -> Branched:
        """The same cuts among the cells of a box."""
        other = Branched(self.branching.within(low, high), self._model, self._row)
        other.cuts, other._known, other._rivals = self.cuts, self._known, self._rivals
        other.whole = False
        return other

    def proof(self) -> Branch:
        """The boxes and cuts."""
        return Branch(tuple(self.cuts), self.branching.tree(), self.limits, tuple(self.asked))


def _key(decision: Array) -> bytes:
    """The same for the same numbers, whatever the sign of a zero."""
    return (decision + 0.0).tobytes()
