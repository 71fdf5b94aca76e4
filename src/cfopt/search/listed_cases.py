"""Branch and cut behind a ReLU network for criteria that some decision of a list meets."""

from __future__ import annotations

from torch import Tensor

from cfopt.clock import is_over
from cfopt.engine.task import Task
from cfopt.exact.certificate import Cut
from cfopt.exact.relu import ReluListProof, ReluTask
from cfopt.question.quantifier import Quantifier
from cfopt.search.cases import CaseTree


class ListedCases:
    """A tree of cases for each decision that may meet the criterion, the most promising first.

    What meets the criterion by some decision is the union over the list; so its nearest point is
    the nearest of all trees. They share the best context known: most decisions are settled by the
    bound of a single case.

    Arguments:
        task: the task; the row may be any of it.
        model: the same as a network, whose decisions are listed.
        row: the row.
        radius: the length of change up to which to look.
        loss: the loss of the best context known; inf if there is none.
        most: how many cases to look at, of all decisions together.
    """

    def __init__(
        self, task: Task, model: ReluTask, row: int, radius: float, loss: float, most: float
    ) -> None:
        candidates = model.candidates(row)
        assert candidates is not None  # as its refusal has made sure
        self.loss, self.radius, self._most = loss, radius, most
        self.x: Tensor | None = None
        self._trees: list[CaseTree] = []
        for decision in candidates:
            if is_over(model.rules.problem.deadline):
                return  # nothing is proved without the others
            cuts = [Cut(decision, Quantifier.SOME)]
            tree = CaseTree(task, model, row, cuts, self.radius, self.loss)
            self._trees.append(tree)
            self._share(tree)

    @property
    def count(self) -> int:
        """How many cases there are."""
        return sum(tree.count for tree in self._trees)

    @property
    def solves(self) -> int:
        """How often the solver was asked."""
        return sum(tree.solves for tree in self._trees)

    @property
    def looks(self) -> int:
        """How often the predictor was asked."""
        return sum(tree.looks for tree in self._trees)

    @property
    def full(self) -> bool:
        """Whether there are as many cases as there may be."""
        return self.count >= self._most

    @property
    def done(self) -> bool:
        """Whether no case of any decision is worth dividing, or there are too many."""
        return self.full or all(tree.done for tree in self._trees)

    def run(self, deadline: float) -> None:
        """Divide cases until all are settled, or time is up."""
        for tree in sorted(self._trees, key=lambda tree: tree.bound):
            self._share(tree)
            while not tree.done and not self.full and not is_over(deadline):
                tree.advance()
                self._share(tree)

    def proof(self) -> ReluListProof:
        """What the cases prove so far."""
        return ReluListProof(tuple(tree.proof() for tree in self._trees))

    def _share(self, tree: CaseTree) -> None:
        """The best context known, of this tree and of all others."""
        if tree.loss < self.loss:
            self.loss, self.radius, self.x = tree.loss, tree.radius, tree.x
        tree.loss, tree.radius = self.loss, min(self.radius, tree.radius)
