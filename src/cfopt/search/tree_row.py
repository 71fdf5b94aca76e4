"""One row of a search over the cells of a tree ensemble."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.progress import Points
from cfopt.exact.certificate import Certificate
from cfopt.exact.tree_proof import Branch, TreeProof
from cfopt.exact.tree_task import TreeTask
from cfopt.problems.solved import same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.search.tree_branched import Branched
from cfopt.search.tree_judge import CellJudge
from cfopt.search.tree_places import Places
from cfopt.trees.branch import Branching, Question
from cfopt.trees.layout import Layout

#: How many boxes are looked at before the clock is read, and in a part of all features.
_BUDGET, _PART = 1000, 300
#: What may be left open, as a fraction of the loss: many cells may be equally near.
_GAP = 1e-9
#: The same where limits on sums of features make the nearest context that of a small program.
_LIMITED_GAP = 1e-7
#: How many features are free at once when a valid cell is improved, and how many valid references
#: are tried.
_FREE, _STARTS = 3, 2

#: How many cells of a branching are refuted by asking the model there.
_ASKED = 200

_Cell = NDArray[np.int32]


class TreeRow:
    """The best cell of a row so far, and what is proved about nearer ones.

    Arguments:
        model, row: the row of a task.
        layout: what all rows share.
        limit: the most decisions to list.
    """

    def __init__(self, model: TreeTask, row: int, layout: Layout, limit: int) -> None:
        self.model, self.row, self.limit = model, row, limit
        self.cells = model.cells(row)
        self.rules = model.rules[torch.tensor([row])]
        self.places = Places(model, row, self.cells)
        self._gap = _GAP if self.places.limits is None else _LIMITED_GAP
        self.best: _Cell | None = None
        self.x: Array = model.origin[row]
        self.loss = np.inf
        self.solves = self.looked = 0
        #: Set by another thread, if nobody waits for the row any more.
        self.stopped = Event()
        self._root = Branching(layout, self.cells)
        self._every = bool(model.multiples(Quantifier.EVERY))
        self._judge = CellJudge(model, model.rules_of(row), self._root)

    def run(self, deadline: float, starts: Iterator[Array]) -> Generator[None, None, Points]:
        """The nearest valid cell, or the best until the deadline; it pauses now and then.

        Arguments:
            deadline: when to stop.
            starts: contexts that seem valid, the nearest first, `(p,)` each.
        """
        self._take_known(starts)
        proofs: dict[int, Branch] = {}
        bound = np.inf
        for k, branched in self._branches():
            if self.best is not None:
                yield from self._improve(branched, deadline)
            yield from self._finish(branched, deadline)
            proofs[k] = branched.proof()
            bound = min(bound, branched.branching.bound)
            self.looked += branched.branching.looked
        proof = TreeProof(proofs, min(bound, self._cutoff), self.limit)
        return self._points(proof, not self._in_time(deadline))

    def _in_time(self, deadline: float) -> bool:
        return not self.stopped.is_set() and not is_over(deadline)

    def _take_known(self, starts: Iterator[Array]) -> list[Array]:
        """Take the best of some contexts that are valid; the decisions there."""
        decisions = []
        for _, x in zip(range(_STARTS), starts, strict=False):
            cell = self.places.cell_of(x)
            place = self.places.nearest(cell, cell)
            if place.x is None or place.loss >= self.loss:
                continue
            judged = self._judge.judge(cell)
            if judged.holds:
                self._take(cell, place.x, place.loss)
            if judged.decision is not None:
                decisions.append(judged.decision)
        return decisions

    def _branches(self) -> Iterator[tuple[int, Branched]]:
        """What must be searched: all cells; or, where some decision is enough, those of each."""
        rules = self.rules
        if not self.model.multiples(Quantifier.SOME):
            branched = Branched(self._root, self.model, self.row, self._listed_rivals())
            own = same_decision(rules.pivot, rules.factual)[0]
            # With a margin, what the alternative must beat are the other decisions only.
            if not (own and rules.margin > 0 and rules.criterion.contrasts):
                kind = Quantifier.EVERY if self._every else Quantifier.GIVEN
                branched.add(rules.factual[0].numpy(), kind)
            yield -1, branched
            return
        listed = rules.problem.decisions(self.limit)
        assert listed is not None  # as `refusal` has made sure
        here = self.model.prices(self.model.space.origin[self.row][None]).numpy()
        candidates = listed.numpy()[self.model.may_suffice(self.row, listed.numpy())]
        choices = self.model.choices(candidates)
        for k in np.argsort(choices @ here.ravel(), kind="stable").tolist():
            branched = Branched(self._root.fresh(), self.model, self.row)
            branched.add(choices[k], Quantifier.SOME)
            yield k, branched

    def _listed_rivals(self) -> Array | None:
        """All decisions that must be beaten, `(D, m)`, if they can be listed."""
        listed = self.rules.problem.decisions(self.limit) if self._every else None
        if listed is None:
            return None
        if self.rules.margin > 0 and self.rules.criterion.contrasts:
            # What must be beaten by a margin are the other decisions only.
            listed = listed[~same_decision(listed, self.rules.pivot)]
        return listed.numpy() if len(listed) else None

    @property
    def _cutoff(self) -> float:
        return (1 - self._gap) * self.loss

    def _finish(
        self, branched: Branched, deadline: float, budget: int | None = None
    ) -> Iterator[None]:
        """Look at boxes until none is open that may be nearer, or time or a budget is used up."""
        branching = branched.branching
        branching.cutoff = self._cutoff
        while not branching.done and self._in_time(deadline):
            if budget is not None and branching.looked >= budget:
                return
            question = branching.advance(_BUDGET if budget is None else budget)
            if question is not None:
                self._answer(branched, question)
            yield

    def _improve(self, branched: Branched, deadline: float) -> Iterator[None]:
        """Look for nearer cells that differ from the best one in a few features only."""
        random, size = np.random.default_rng(0), len(self.cells.home)
        top = np.diff(self.cells.start) - 1
        for free in range(1, min(_FREE, size - 1) + 1):
            idle, order = 0, np.empty(0, dtype=np.int64)
            while idle < size and self._in_time(deadline):
                before = self.loss
                if len(order) < free:
                    order = random.permutation(size)
                part, order = order[:free], order[free:]
                low, high = self._best_cell().copy(), self._best_cell().copy()
                low[part], high[part] = 0, top[part]
                inner = branched.within(low, high)
                yield from self._finish(inner, deadline, budget=_PART)
                self.looked += inner.branching.looked
                idle = 0 if self.loss < before else idle + free

    def _best_cell(self) -> _Cell:
        assert self.best is not None
        return self.best

    def _take(self, cell: _Cell, x: Array, loss: float) -> None:
        self.best, self.x, self.loss = cell.copy(), x, loss

    def _limit(self, branched: Branched, question: Question) -> None:
        """Close or divide a box whose nearest cell meets all cuts, but not the limits on sums."""
        branching = branched.branching
        low, high = (end.copy() for end in branching.extent(question))
        place = self.places.nearest(low, high)
        if place.tree is not None and place.bound >= branching.cutoff:
            branched.limits[question.box] = place.tree
            return
        cell = question.cell
        if place.x is not None:
            cell = np.clip(self.places.cell_of(place.x), low, high)
        if (low < high).any():
            f = int(np.where(low < high, np.abs(cell - question.cell), -1).argmax())
            at = max(int(cell[f]), int(question.cell[f])) - 1
            branching.divide(question, f, max(at, int(low[f])))
            return
        judged = self._judge.judge(cell, branched)
        if (
            judged.decision is not None
            and not judged.holds
            and self._judge.is_new(judged.decision, branched)
        ):
            branched.add(judged.decision, Quantifier.EVERY)
            branching.again(question)
            return
        if judged.holds and place.x is not None and place.loss < self.loss:
            self._take(cell, place.x, place.loss)
            branching.cutoff = self._cutoff
        if place.tree is None:
            branching.without(question)
            return
        branched.limits[question.box] = place.tree
        if place.bound < branching.cutoff:  # what multipliers prove is rounded
            branching.doubt = min(branching.doubt, max(place.bound, question.cost))

    def _answer(self, branched: Branched, question: Question) -> None:
        """Judge a cell: it is the best one, or its decision is a cut, or it stays in doubt."""
        branching, x = branched.branching, self.cells.context(question.cell)
        if not self.places.allow(x):
            self._limit(branched, question)
            return
        if question.cell.tobytes() in branched.refuted:
            self._set_apart(branched, question)
            return
        if branched.refute(self._root.costs(question.cell)):
            branching.again(question)
            return
        judged = self._judge.judge(question.cell, branched)
        decision = judged.decision
        if judged.holds:
            if question.cost < self.loss:
                self._take(question.cell, x, question.cost)
            branching.cutoff = self._cutoff
        elif decision is not None and self._judge.is_new(decision, branched):
            branched.add(decision, Quantifier.EVERY)
            branching.again(question)
        elif decision is not None and branched.whole and len(branched.asked) < _ASKED:
            branched.refuted.add(question.cell.tobytes())
            self._set_apart(branched, question)
        else:
            # No proof gets beyond this cell.
            nearest = branched.whole and question.cost <= branching.bound
            branching.without(question)
            if nearest and decision is not None:
                branching.cuts.tighten(question.cell, branching.forest)

    def _set_apart(self, branched: Branched, question: Question) -> None:
        """Leave out a cell that is not valid, although no cut is broken by more than is granted.

        Its box is divided until the cell is alone; that box is refuted by asking the model there.
        """
        if not branched.branching.divide_around(question):
            branched.asked.append(question.box)

    def _points(self, proof: Certificate[TreeTask], late: bool) -> Points:
        device = self.model.space.origin.device
        count = torch.tensor([self.looked], device=device)
        return Points(
            rows=torch.tensor([self.row], device=device),
            x=self.model.contexts(self.x[None]),
            found=torch.tensor([self.best is not None], device=device),
            steps=count,
            solves=torch.full_like(count, self.solves + self._judge.solves),
            passes=torch.zeros_like(count),
            notes=("time was up" if late else "",),
            methods=("cells of trees",),
            certificates=(proof,),
        )
