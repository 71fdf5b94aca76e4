"""One row of a search over the cells of a tree ensemble."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.engine.progress import Points
from cfopt.engine.rules import TOLERANCE
from cfopt.exact.certificate import Cut
from cfopt.exact.tree_proof import Branch, TreeProof
from cfopt.exact.tree_task import TreeTask
from cfopt.problems.base import same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.trees.branch import Branching, Question
from cfopt.trees.layout import Layout

#: How many boxes are looked at before the clock is read, and in a part of all features.
_BUDGET, _PART = 1000, 300
#: What may be left open, as a fraction of the loss: many cells may be equally near.
_GAP = 1e-9
#: How many features are free at once when a valid cell is improved, and how many valid references
#: are tried.
_FREE, _STARTS = 3, 2

_Cell = NDArray[np.int32]


class Branched:
    """A branching with the decisions that its cuts are about.

    Arguments:
        branching: the boxes.
        model, row: what cuts are made of.
    """

    def __init__(self, branching: Branching, model: TreeTask, row: int) -> None:
        self.branching, self._model, self._row = branching, model, row
        self.cuts: list[Cut] = []
        self.whole = True

    def add(self, decision: Array, quantifier: Quantifier) -> None:
        """Add the cuts of a decision."""
        self.cuts.append(Cut(decision.copy(), quantifier))
        made = self._model.cuts(self._row, quantifier, decision[None])
        for weight, limit, size in zip(*made, strict=True):
            self.branching.cuts.add(weight, limit, size)

    def knows(self, decision: Array, quantifier: Quantifier) -> bool:
        """Whether a decision has been cut with."""
        return any(
            cut.quantifier is quantifier and np.array_equal(cut.decision, decision)
            for cut in self.cuts
        )

    def within(self, low: _Cell, high: _Cell) -> Branched:
        """The same cuts among the cells of a box."""
        other = Branched(self.branching.within(low, high), self._model, self._row)
        other.cuts, other.whole = self.cuts, False
        return other

    def proof(self) -> Branch:
        """The boxes and cuts."""
        return Branch(tuple(self.cuts), self.branching.tree())


class TreeRow:
    """The best cell of a row so far, and what is proved about nearer ones.

    Arguments:
        model, row: the row of a task.
        layout: what all rows share.
        limit: the most decisions to list.
        solver: held while the solver is asked, since rows may run at once.
    """

    def __init__(self, model: TreeTask, row: int, layout: Layout, limit: int, solver: Lock) -> None:
        self.model, self.row, self.limit, self._solver = model, row, limit, solver
        self.cells = model.cells(row)
        self.rules = model.rules[torch.tensor([row])]
        self.best: _Cell | None = None
        self.loss = np.inf
        self.solves = self.looked = 0
        self._root = Branching(layout, self.cells)
        self._every = bool(model.multiples(Quantifier.EVERY))

    def run(self, deadline: float, starts: Iterator[Array]) -> Points:
        """The nearest valid cell, or the best until the deadline.

        Arguments:
            deadline: a moment of `time.monotonic`.
            starts: contexts that seem valid, the nearest first, `(p,)` each.
        """
        for _, x in zip(range(_STARTS), starts, strict=False):
            cell = self.cells.cell_of(x, self.model.thresholds)
            if self.cells.loss(cell) < self.loss and self._judge(cell)[0]:
                self._take(cell)
        some = self.model.multiples(Quantifier.SOME)
        proofs: dict[int, Branch] = {}
        bound = np.inf
        for k, branched in self._branches(bool(some)):
            if self.best is not None:
                self._improve(branched, deadline)
            self._finish(branched, deadline)
            proofs[k] = branched.proof()
            bound = min(bound, branched.branching.bound)
            self.looked += branched.branching.looked
        late = time.monotonic() > deadline
        return self._points(TreeProof(proofs, min(bound, self._cutoff), self.limit), late)

    def _branches(self, some: bool) -> Iterator[tuple[int, Branched]]:
        """What must be searched: all cells; or, where some decision is enough, those of each."""
        rules = self.rules
        if not some:
            branched = Branched(self._root, self.model, self.row)
            own = same_decision(rules.pivot, rules.factual)[0]
            # With a margin, what the alternative must beat are the other decisions only.
            if not (own and rules.margin > 0 and rules.criterion.contrasts):
                kind = Quantifier.EVERY if self._every else Quantifier.GIVEN
                branched.add(rules.factual[0].numpy(), kind)
            yield -1, branched
            return
        listed = rules.problem.decisions(self.limit)
        assert listed is not None  # as `refusal` has made sure
        here = self.model.prices(self.model.space.origin[self.row][None])[0].numpy()
        for k in np.argsort(listed.numpy() @ here, kind="stable").tolist():
            branched = Branched(self._root.fresh(), self.model, self.row)
            branched.add(listed[k].numpy(), Quantifier.SOME)
            yield k, branched

    @property
    def _cutoff(self) -> float:
        return (1 - _GAP) * self.loss

    def _finish(self, branched: Branched, deadline: float, budget: int | None = None) -> None:
        """Look at boxes until none is open that may be nearer, or time or a budget is used up."""
        branching = branched.branching
        branching.cutoff = self._cutoff
        while not branching.done and time.monotonic() <= deadline:
            if budget is not None and branching.looked >= budget:
                return
            question = branching.advance(_BUDGET if budget is None else budget)
            if question is not None:
                self._answer(branched, question)

    def _improve(self, branched: Branched, deadline: float) -> None:
        """Look for nearer cells that differ from the best one in a few features only."""
        random, size = np.random.default_rng(0), len(self.cells.home)
        top = np.diff(self.cells.start) - 1
        for free in range(1, min(_FREE, size - 1) + 1):
            idle, order = 0, np.empty(0, dtype=np.int64)
            while idle < size and time.monotonic() <= deadline:
                before = self.loss
                if len(order) < free:
                    order = random.permutation(size)
                part, order = order[:free], order[free:]
                low, high = self._best_cell().copy(), self._best_cell().copy()
                low[part], high[part] = 0, top[part]
                inner = branched.within(low, high)
                self._finish(inner, deadline, budget=_PART)
                self.looked += inner.branching.looked
                idle = 0 if self.loss < before else idle + free

    def _best_cell(self) -> _Cell:
        assert self.best is not None
        return self.best

    def _take(self, cell: _Cell) -> None:
        self.best, self.loss = cell.copy(), self.cells.loss(cell)

    def _answer(self, branched: Branched, question: Question) -> None:
        """Judge a cell: it is the best one, or its decision is a cut, or it stays in doubt."""
        branching = branched.branching
        holds, decision = self._judge(question.cell)
        every = Quantifier.EVERY
        if holds:
            if question.cost < self.loss:
                self._take(question.cell)
            branching.cutoff = self._cutoff
        elif decision is not None and self._every and not branched.knows(decision, every):
            branched.add(decision, every)
            branching.again(question)
        else:
            # Verification may grant what a cut is broken by, but does not here; or it fails. No
            # proof gets beyond this cell.
            nearest = branched.whole and question.cost <= branching.bound
            branching.without(question)
            if nearest and decision is not None:
                branching.cuts.firm(question.cell, branching.forest)

    def _judge(self, cell: _Cell) -> tuple[bool, Array | None]:
        """Whether a cell is valid, and the decision that decides it, if there is one."""
        x = self.model.contexts(self.cells.context(cell)[None])
        rules = self.rules
        with self._solver:
            prices = self.model.prices(x)
            rival = rules.rival(prices)
            decision = rival.decisions[0].numpy()
            solved = rules.calls_solver
            lost = rival.failures or (solved and rules.problem.audit(decision[None]))
        self.solves += int(solved)
        judged = rules.judge(prices, rival.decisions, TOLERANCE, rival.shortfall)
        return bool(judged.holds[0]) and not lost, None if lost else decision

    def _points(self, proof: TreeProof, late: bool) -> Points:
        device = self.model.space.origin.device
        cell = self.cells.home if self.best is None else self.best
        count = torch.tensor([self.looked], device=device)
        return Points(
            rows=torch.tensor([self.row], device=device),
            x=self.model.contexts(self.cells.context(cell)[None]),
            found=torch.tensor([self.best is not None], device=device),
            steps=count,
            solves=torch.full_like(count, self.solves),
            passes=torch.zeros_like(count),
            notes=("time was up" if late else "",),
            methods=("cells of trees",),
            certificates=(proof,),
        )
