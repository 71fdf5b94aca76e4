"""The nearest context in which a criterion fails, behind a tree ensemble.

Costs are constant in a cell, so a ball is decided by the cells that it meets. Boxes of cells are
looked at in the order of their distance. A box is closed where bounds on its costs show that the
criterion holds, a single cell is judged as verification judges a context, and any other box is
divided. Nothing is shared with the searches whose answers are verified here.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.exact_task import NORMS
from cfopt.exact.tree_task import TreeTask, trees_of
from cfopt.problems.solved import NO_OTHER
from cfopt.question.quantifier import Quantifier
from cfopt.trees.boxes import leaf_boxes
from cfopt.trees.cells import after, up_to

#: The most boxes that are looked at for a row; where each takes a call of a solver, fewer.
_BOXES, _SOLVED_BOXES = 20_000, 1_000
#: How many boxes are looked at together, and the most numbers that this may take.
_TOGETHER, _NUMBERS = 64, 4_000_000
#: The most decisions that are listed in place of asking a solver.
_LISTED = 2_000
#: By what fraction distances are rounded.
_ROUNDING = 1e-9

_Cells = NDArray[np.int64]


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
    """

    def __init__(self, task: Task, off_by: OffBy) -> None:
        self.model, self.off_by = TreeTask(task), off_by
        self.dtype = np.dtype(str(task.space.origin.dtype).removeprefix("torch."))
        problem = self.model.rules.problem
        listed = problem.decisions(_LISTED)
        self.decisions = None if listed is None else listed.numpy()
        self.columns = problem.column_bounds()
        self.boxes = _BOXES if listed is not None or not problem.rowwise else _SOLVED_BOXES

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


class _Row:
    """The leaves and cells near the context of one row, by the features that tell them apart."""

    def __init__(self, search: TreeFailures, row: int) -> None:
        self.search, self.model, self.row = search, search.model, row
        self.origin: Array = self.model.origin[row]
        self.norm = NORMS[type(search.off_by.norm)]
        limit = (search.off_by.radius * (1 + _ROUNDING)) ** self.norm.power
        self.limit = min(limit, float(np.finfo(np.float64).max))
        thresholds, ensemble = self.model.thresholds, self.model.ensemble
        pairs = zip(thresholds, self.origin, strict=True)
        self.home = np.array([np.searchsorted(own, x) for own, x in pairs], dtype=np.int64)
        self.cost = np.full((len(thresholds), max(map(len, thresholds)) + 1), np.inf)
        for f, own in enumerate(thresholds):
            # How far contexts are that round to one of the cell: these are not told from its own.
            off = np.maximum(np.append(-np.inf, up_to(own, search.dtype)) - self.origin[f], 0.0)
            off = np.maximum(off, self.origin[f] - np.append(after(own, search.dtype), np.inf))
            if (unit := search.off_by.units[f]) > 0:
                self.cost[f, : len(off)] = (off / unit) ** self.norm.power
        self.cost[np.arange(len(self.home)), self.home] = 0.0
        low, high, owner = (one.astype(np.int64) for one in leaf_boxes(ensemble, ()))
        near = np.flatnonzero(self._distance(low, high) <= self.limit)
        near = near[owner[near].argsort(kind="stable")]
        # Trees of which one leaf is near add the same everywhere.
        alone = np.bincount(owner[near])[owner[near]] == 1
        self.base = ensemble.base + self._values(near[alone], owner).sum(axis=0)
        near = near[~alone]
        self.starts = np.flatnonzero(np.diff(owner[near], prepend=-1))
        self.values = self._values(near, owner)
        within = self.cost <= self.limit
        self.first = within.argmax(axis=1)
        self.last = self.first + within.sum(axis=1) - 1
        apart = (low[near] > self.first) | (high[near] < self.last)
        self.used = np.flatnonzero(apart.any(axis=0))
        self.low, self.high = low[near][:, self.used], high[near][:, self.used]
        self.cost, self.home = self.cost[self.used], self.home[self.used]
        self.first, self.last = self.first[self.used], self.last[self.used]

    def _values(self, leaves: _Cells, owner: _Cells) -> Array:
        """What leaves add to each cost: `(L,) -> (L, n)`."""
        ensemble = self.model.ensemble
        if not ensemble.single:
            return ensemble.values[leaves]
        values = np.zeros((len(leaves), ensemble.num_targets))
        values[np.arange(len(leaves)), ensemble.targets[owner[leaves]]] = ensemble.values[leaves, 0]
        return values

    def _distance(self, low: _Cells, high: _Cells) -> Array:
        """How far the nearest cell of boxes is, to the power of the norm: `(..., p) -> (...)`."""
        nearest = np.minimum(np.maximum(self.home, low), high)
        costs = np.where(low > high, np.inf, self.cost[np.arange(len(self.home)), nearest])
        found: Array = costs.max(-1, initial=0.0) if self.norm.order == np.inf else costs.sum(-1)
        return found

    def nearest(self) -> Failure:
        """Look at boxes, the nearest first."""
        if self.values.size > _NUMBERS:
            return Failure(0.0)
        ticket, heap = count(), [(0.0, -1, self.first, self.last)]
        found, looked, cutoff = Failure(np.inf), 0, np.nextafter(self.limit, np.inf)
        together = int(np.clip(_NUMBERS // max(1, self.values.size), 1, _TOGETHER))
        while heap and heap[0][0] < cutoff:
            if looked >= self.search.boxes:
                return found._replace(bound=self._length(heap[0][0]))
            boxes = [heapq.heappop(heap) for _ in range(min(together, len(heap)))]
            looked += len(boxes)
            low, high = np.stack([one[2] for one in boxes]), np.stack([one[3] for one in boxes])
            reached = self._reached(low, high)
            single = []
            for k in np.flatnonzero(~self._hold(low, high, reached)).tolist():
                parts = self._parts(low[k], high[k], reached[k])
                single += [] if parts else [k]
                for part in parts:
                    far = float(self._distance(*part))
                    if far < cutoff:
                        heapq.heappush(heap, (far, next(ticket), *part))
            sure = self._cells_hold(reached[single])
            for k in (k for k, holds in zip(single, sure, strict=True) if not holds):
                x = self._context(low[k], high[k])
                if boxes[k][0] < cutoff and (excess := self._excess(x)) is not None:
                    cutoff = boxes[k][0]
                    found = Failure(self._length(cutoff), self._length(cutoff), x, excess)
        return found

    def _length(self, cost: float) -> float:
        return float(cost ** (1 / self.norm.power))

    def _reached(self, low: _Cells, high: _Cells) -> NDArray[np.bool_]:
        """Which leaves the near cells of boxes reach: `(K, p), (K, p) -> (K, L)`."""
        low, high = np.maximum(low[:, None], self.low), np.minimum(high[:, None], self.high)
        reached: NDArray[np.bool_] = self._distance(low, high) <= self.limit
        return reached

    def _parts(
        self, low: _Cells, high: _Cells, reached: NDArray[np.bool_]
    ) -> list[tuple[_Cells, _Cells]]:
        """Two parts of a box; none of a single cell, or of cells that no leaf tells apart.

        It is divided by the feature that most leaves compare, at the middle of their thresholds.
        """
        best = np.empty(0, dtype=np.int64)
        for f in range(len(low)):
            ends = np.append(self.low[reached, f] - 1, self.high[reached, f])
            ends = ends[(ends >= low[f]) & (ends < high[f])]
            if len(ends) > len(best):
                best, feature = ends, f
        if not len(best):
            return []
        below, above = high.copy(), low.copy()
        below[feature] = np.sort(best)[len(best) // 2]
        above[feature] = below[feature] + 1
        return [(low, below), (above, high)]

    def _context(self, low: _Cells, high: _Cells) -> Array:
        """The context of a box that is nearest to the row's own: `(p,), (p,) -> (p,)`."""
        x, dtype = self.origin.copy(), self.search.dtype
        for k, f in enumerate(self.used):
            own = self.model.thresholds[f]
            if low[k] > self.home[k]:
                x[f] = after(own[low[k] - 1 : low[k]], dtype)[0]
            elif high[k] < self.home[k]:
                x[f] = up_to(own[high[k] : high[k] + 1], dtype)[0]
        return x

    def _cells_hold(self, reached: NDArray[np.bool_]) -> list[bool]:
        """Whether the criterion holds in cells whatever rounding does: `(K, L) -> (K,)`."""
        if not len(reached):
            return []
        prices = (self.base + reached @ self.values) @ self.model.per_cost + self.model.fixed
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

    def _hold(self, low: _Cells, high: _Cells, reached: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
            near = np.minimum(np.maximum(self.home, low), high)
            costs = self.base + self._reached(near, near) @ self.values
            prices = costs @ self.model.per_cost + self.model.fixed
            best, _ = self.search.best(prices)
            worst = np.maximum(worst, self._most(best, Quantifier.SOME, reached))
        if Quantifier.EVERY in multiples:
            worst = np.maximum(worst, self._most_of_every(reached))
        held: NDArray[np.bool_] = worst <= granted
        return held

    def _sum(
        self, scores: Array, reached: NDArray[np.bool_], extreme: np.ufunc, none: float
    ) -> Array:
        """The sum over trees of the extreme score that is reached: `(K, L, C) -> (K, C)`."""
        if not len(self.starts):
            return np.zeros((len(reached), scores.shape[2]))
        masked = np.where(reached[:, :, None], scores, none)
        found: Array = extreme.reduceat(masked, self.starts, axis=1).sum(axis=1)
        return found

    def _most(self, decisions: Array, quantifier: Quantifier, reached: NDArray[np.bool_]) -> Array:
        """The most that the inequalities of a decision can be in each box: `(K, m) -> (K,)`."""
        flat = self.model.directions(self.row, quantifier, decisions)
        directions = flat.reshape(len(decisions), -1, flat.shape[1])
        weights = directions @ self.model.per_cost.T
        constant = directions @ self.model.fixed + weights @ self.base
        scores = np.matmul(self.values, weights.transpose(0, 2, 1))
        most: Array = (constant + self._sum(scores, reached, np.maximum, -np.inf)).max(axis=1)
        return most

    def _most_of_every(self, reached: NDArray[np.bool_]) -> Array:
        """The same for all decisions at once, `(K,)`: by one solve at the worst prices.

        With prices between l and u, `<p, a y + e>` is at most a sum over columns of
        `max(l (a y + e), u (a y + e))`: convex in y, hence below its chord.
        """
        least, most = self.search.columns
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            return np.full(len(reached), np.inf)
        rules = self.model.rules
        # With a margin, the alternative is measured against the other decisions.
        margin = rules.margin > 0 and rules.criterion.contrasts
        own = rules.pivot[self.row].numpy() if margin else None
        low = self.base + self._sum(self.values[None], reached, np.minimum, np.inf)
        high = self.base + self._sum(self.values[None], reached, np.maximum, -np.inf)
        up, down = np.maximum(self.model.per_cost, 0.0), np.maximum(-self.model.per_cost, 0.0)
        lower = low @ up - high @ down + self.model.fixed
        upper = high @ up - low @ down + self.model.fixed
        width = np.where(most > least, most - least, 1.0)
        worst = np.full(len(reached), -np.inf)
        for a in self.model.multiples(Quantifier.EVERY):
            for end in self.model.ends(self.row):
                ends = [np.maximum(lower * v, upper * v) for v in (a * least + end, a * most + end)]
                slope = (ends[1] - ends[0]) / width
                decisions, short = self.search.best(-slope, own)
                found = (ends[0] + slope * (decisions - least)).sum(axis=1) + short
                worst = np.maximum(worst, found)
        return worst
