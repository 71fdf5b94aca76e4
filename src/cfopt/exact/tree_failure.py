"""The nearest context in which a criterion fails, behind a tree ensemble.

Costs are constant in a cell, so a ball is decided by the cells that it meets. Boxes of cells are
looked at in the order of their distance. A box is closed where bounds on its costs show that the
criterion holds, a single cell is judged as verification judges a context, and any other box is
divided. Nothing is shared with the searches whose answers are verified here.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.near_leaves import CellNumbers, NearLeaves
from cfopt.exact.tree_task import TreeTask, trees_of
from cfopt.problems.solved import NO_OTHER
from cfopt.question.proximity import L2
from cfopt.question.quantifier import Quantifier

#: The most boxes that are looked at for a row; where each takes a call of a solver, fewer.
_BOXES, _SOLVED_BOXES = 5_000, 500
#: The same while searches look for answers.
_SEARCHED_BOXES = 1_000
#: How many boxes are looked at together, and the most numbers that this may take.
_TOGETHER, _NUMBERS = 64, 4_000_000
#: The most decisions that are listed in place of asking a solver; of which each is bounded alone.
_LISTED, _FEW = 2_000, 200


class Failure(NamedTuple):
    """What is known of contexts around one.

    Arguments:
        bound: the criterion holds in all contexts that are nearer; inf if it holds wherever was
            to be looked.
        distance: that of the nearest context found in which it does not hold; inf without one.
        x: that context, `(p,)`.
        excess: the criterion's h there.
    """

    bound: float
    distance: float = np.inf
    x: Array | None = None
    excess: float = -np.inf


class TreeFailures:
    """Looks for failures around contexts.

    Arguments:
        task: a task that `serves`; failures are looked for around its origins.
        off_by: how distances are measured, and the largest one that matters.
        boxes: the most boxes that are looked at for a row.
    """

    def __init__(self, task: Task, off_by: OffBy, boxes: int = _BOXES) -> None:
        self.model, self.off_by = TreeTask(task), off_by
        problem = self.model.rules.problem
        listed = problem.decisions(_LISTED)
        self.decisions = None if listed is None else listed.numpy()
        self.columns = problem.column_bounds()
        solves = listed is None and problem.rowwise
        self.boxes = min(boxes, _SOLVED_BOXES) if solves else boxes

    @staticmethod
    def serves(task: Task) -> bool:
        """Whether the predictor is a tree ensemble, and the criterion is about a decision."""
        return trees_of(task.predictor) is not None and task.rules.wish is None

    def nearest(self, row: int) -> Failure:
        """The nearest failure of a row, no farther than contexts may be off."""
        return _Row(self, row).nearest()

    def best(self, prices: Array, apart: Array | None = None) -> tuple[Array, Array]:
        """The best decisions, and how far they may fall short: `(K, m) -> (K, m), (K,)`.

        Apart from one of them, `(m,)`; then an infinite shortfall says that it is not known.
        """
        if self.decisions is not None:
            rest = self.decisions
            if apart is not None:
                rest = rest[(rest != apart).any(axis=1)]
            if len(rest):
                return rest[(prices @ rest.T).argmin(axis=1)], np.zeros(len(prices))
        if apart is not None:
            return np.zeros_like(prices), np.full(len(prices), np.inf)
        problem = self.model.rules.problem
        solved = problem.attempt(problem.sense.sign * torch.from_numpy(prices))
        short = np.zeros(len(prices)) if solved.shortfall is None else solved.shortfall.numpy()
        decisions = solved.decisions.numpy()
        decisions[list(solved.failures)], short[list(solved.failures)] = 0.0, np.inf
        return decisions, short


def served(task: Task) -> bool:
    """Whether all predictors of a task are served."""
    further = () if task.variation is None else task.variation.predictors
    return all(TreeFailures.serves(replace(task, predictor=k)) for k in (task.predictor, *further))


def failure_around(task: Task, x: Tensor) -> tuple[int, Array] | None:
    """The number of a predictor of a task, and the nearest context in which it fails: `(p,)`.

    With few boxes, for searches, which are verified; None if there is no failure in the ball.

    Arguments:
        task: one row, which is `served`, with a ball.
        x: the context around which to look, `(1, ...)`.
    """
    assert task.variation is not None
    assert task.variation.off_by is not None
    for k, predictor in enumerate((task.predictor, *task.variation.predictors)):
        own = replace(task.by_itself(predictor), space=Space(x, L2()))
        found = TreeFailures(own, task.variation.off_by, _SEARCHED_BOXES).nearest(0)
        if found.x is not None:
            return k, found.x
    return None


class _Row:
    """What is near one row, and whether the criterion holds there."""

    def __init__(self, search: TreeFailures, row: int) -> None:
        self.search, self.model, self.row = search, search.model, row
        self.near = NearLeaves(search.model, row, search.off_by)

    def nearest(self) -> Failure:
        """Look at boxes, the nearest first."""
        largest = max(self.near.values.size, 0 if self._rivals is None else self._rivals[0].size)
        if largest > _NUMBERS:
            return Failure(0.0)
        ticket, heap = count(), [(0.0, -1, self.near.first, self.near.last)]
        found, looked, cutoff = Failure(np.inf), 0, np.nextafter(self.near.limit, np.inf)
        together = int(np.clip(_NUMBERS // max(1, largest), 1, _TOGETHER))
        while heap and heap[0][0] < cutoff:
            if looked >= self.search.boxes:
                return found._replace(bound=self.near.length(heap[0][0]))
            boxes = [heapq.heappop(heap) for _ in range(min(together, len(heap)))]
            looked += len(boxes)
            low, high = np.stack([one[2] for one in boxes]), np.stack([one[3] for one in boxes])
            reached = self.near.reached(low, high)
            single = []
            for k in np.flatnonzero(~self._hold(low, high, reached)).tolist():
                parts = self.near.parts(low[k], high[k], reached[k])
                single += [] if parts else [k]
                for part in parts:
                    far = float(self.near.distance(*part))
                    if far < cutoff:
                        heapq.heappush(heap, (far, next(ticket), *part))
            sure = self._cells_hold(reached[single])
            for k in (k for k, holds in zip(single, sure, strict=True) if not holds):
                x = self.near.context(low[k], high[k])
                if boxes[k][0] < cutoff and (excess := self._excess(x)) is not None:
                    cutoff = boxes[k][0]
                    found = Failure(self.near.length(cutoff), self.near.length(cutoff), x, excess)
        return found

    def _cells_hold(self, reached: NDArray[np.bool_]) -> list[bool]:
        """Whether the criterion holds in cells whatever rounding does: `(K, L) -> (K,)`."""
        if not len(reached):
            return []
        prices = (
            self.near.base + reached @ self.near.values
        ) @ self.model.per_cost + self.model.fixed
        return [one is None for one in self._judged(prices, TOLERANCE - self.model.rounding)]

    def _excess(self, x: Array) -> float | None:
        """The criterion's h in a context, by the model's own prediction; None if it holds."""
        prices = self.model.prices(self.model.contexts(x[None]))
        return self._judged(prices.numpy(), TOLERANCE)[0]

    def _judged(self, prices: Array, tolerance: float) -> list[float | None]:
        """The criterion's h at some prices, `(K, m)`; None where it holds."""
        given = torch.from_numpy(prices)
        rules = self.model.rules[torch.full((len(prices),), self.row)]
        rival = rules.rival(given)
        judged = rules.judge(given, rival.decisions, tolerance, rival.shortfall)
        holds, h = judged.holds.tolist(), judged.h.nan_to_num(np.inf).tolist()
        for k, why in rival.failures.items():
            holds[k] = why == NO_OTHER  # then it wins by any margin
        return [None if good else excess for good, excess in zip(holds, h, strict=True)]

    # Whether the criterion holds in every cell of boxes.

    def _hold(
        self, low: CellNumbers, high: CellNumbers, reached: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether bounds show that: `(K, p), (K, p), (K, L) -> (K,)`."""
        multiples = self.model.rules.criterion.multiples
        if not multiples:
            return np.zeros(len(low), dtype=bool)
        size = self.model.rules.size
        granted = 0.0 if size is None else self.model.rules.rounding * float(size[self.row])
        worst = np.full(len(low), -np.inf)
        if Quantifier.GIVEN in multiples:
            given = self.model.rules.factual[self.row].numpy()[None].repeat(len(low), 0)
            worst = np.maximum(worst, self._most(given, Quantifier.GIVEN, reached))
        if Quantifier.SOME in multiples:
            near = np.minimum(np.maximum(self.near.home, low), high)
            costs = self.near.base + self.near.reached(near, near) @ self.near.values
            prices = costs @ self.model.per_cost + self.model.fixed
            best, _ = self.search.best(prices)
            most = self._most(best, Quantifier.SOME, reached)
            # By equality it may hold for a decision that is as good as any: each cell is judged.
            worst = np.maximum(worst, np.where(most < -granted, most, np.inf))
        if Quantifier.EVERY in multiples:
            worst = np.maximum(worst, self._most_of_every(reached))
        held: NDArray[np.bool_] = worst <= granted
        return held

    def _most(self, decisions: Array, quantifier: Quantifier, reached: NDArray[np.bool_]) -> Array:
        """The most that the inequalities of a decision can be in each box: `(K, m) -> (K,)`.

        With all that a decision may need to unseat the factual one.
        """
        flat = self.model.directions(self.row, quantifier, decisions)
        directions = flat.reshape(len(decisions), -1, flat.shape[1])
        weights = directions @ self.model.per_cost.T
        constant = directions @ self.model.fixed + weights @ self.near.base
        scores = np.matmul(self.near.values, weights.transpose(0, 2, 1))
        most = constant + self.near.sums(scores, reached, np.maximum, -np.inf)
        if quantifier is Quantifier.SOME:
            for factual in self.model.unseated(self.row):  # by the last one
                differing, rules = np.abs(decisions - factual), self.model.rules
                unit = (rules.lead + 2 * rules.rounding) * self.model.largest[self.row]
                most[:, -1] += unit * differing.sum(axis=1)
                most[~differing.any(axis=1)] = np.inf
        found: Array = most.max(axis=1)
        return found

    @cached_property
    def _rivals(self) -> tuple[Array, Array] | None:
        """Scores of leaves for few listed decisions, `(L, C)`, and constants; None of many."""
        listed = self.search.decisions
        if listed is None or len(listed) > _FEW:
            return None
        if self._alone is not None:
            listed = listed[(listed != self._alone).any(axis=1)]
        directions = self.model.directions(self.row, Quantifier.EVERY, listed)
        weights = directions @ self.model.per_cost.T
        return (
            self.near.values @ weights.T,
            directions @ self.model.fixed + weights @ self.near.base,
        )

    @property
    def _alone(self) -> Array | None:
        """With a margin, the alternative, which is measured against the other decisions: `(m,)`."""
        rules = self.model.rules
        margin = rules.margin > 0 and rules.criterion.contrasts
        if not margin:
            return None
        own: Array = rules.pivot[self.row].numpy()
        return own

    def _most_of_every(self, reached: NDArray[np.bool_]) -> Array:
        """The same for all decisions, `(K,)`: each of few; many by one solve at the worst prices.

        With prices between l and u, `<p, a y + e>` is at most a sum over columns of
        `max(l (a y + e), u (a y + e))`: convex in y, hence below its chord.
        """
        if self._rivals is not None:
            scores, constants = self._rivals
            found = constants + self.near.sums(scores[None], reached, np.maximum, -np.inf)
            largest: Array = found.max(axis=1, initial=-np.inf)
            return largest
        least, most = self.search.columns
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            return np.full(len(reached), np.inf)
        low = self.near.base + self.near.sums(self.near.values[None], reached, np.minimum, np.inf)
        high = self.near.base + self.near.sums(self.near.values[None], reached, np.maximum, -np.inf)
        up, down = np.maximum(self.model.per_cost, 0.0), np.maximum(-self.model.per_cost, 0.0)
        lower = low @ up - high @ down + self.model.fixed
        upper = high @ up - low @ down + self.model.fixed
        width = np.where(most > least, most - least, 1.0)
        worst = np.full(len(reached), -np.inf)
        for a in self.model.multiples(Quantifier.EVERY):
            for end in self.model.ends(self.row):
                ends = [np.maximum(lower * v, upper * v) for v in (a * least + end, a * most + end)]
                slope = (ends[1] - ends[0]) / width
                decisions, short = self.search.best(-slope, self._alone)
                found = (ends[0] + slope * (decisions - least)).sum(axis=1) + short
                worst = np.maximum(worst, found)
        return worst
