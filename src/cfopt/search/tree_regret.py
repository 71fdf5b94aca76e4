"""One row of a search over the cells of trees, where decisions are many and some one is enough.

Each decision that is met has its own nearest cell, which branch and cut finds: the best of these is
the answer. That no other decision has a nearer one is proved box by box, by solves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import heappop, heappush

import numpy as np

from cfopt._typing import Array
from cfopt.clock import part_of
from cfopt.engine.progress import Points
from cfopt.exact.geometry import Tree
from cfopt.exact.regret import References, RegretBounds
from cfopt.exact.regret_proof import RegretProof
from cfopt.exact.tree_task import TreeTask
from cfopt.question.quantifier import Quantifier
from cfopt.search.tree_branched import Branched
from cfopt.search.tree_row import TreeRow
from cfopt.trees.arrays import Ints, Spreads
from cfopt.trees.bounds import nearest
from cfopt.trees.boxes import BoxTree
from cfopt.trees.branch import CutPool
from cfopt.trees.layout import Layout
from cfopt.trees.spread import division, spreads

#: How many boxes are bounded by one call of the solver.
_AT_ONCE = 64
#: How many boxes are looked at for a decision that is met, and for how many decisions.
_BUDGET, _MET = 300, 400
#: The fraction of the time for boxes: their check makes the solves of those refuted again.
_PART = 0.6


class RegretRow(TreeRow):
    """The best cell of a row so far, and boxes in which no decision meets the criterion."""

    def __init__(self, model: TreeTask, row: int, layout: Layout, limit: int) -> None:
        super().__init__(model, row, layout, limit)
        self._bounds = self._bounded()
        self._boxes = _Boxes()
        #: Multipliers of limits on sums of features, by the boxes that they show to be far.
        self._far: dict[int, Tree] = {}
        self._met: set[bytes] = set()
        self._numbers: dict[tuple[bytes, int], int] = {}
        # A cut for each decision that was met says where to divide a box that it is open for.
        self._directions = CutPool(layout)

    def run(self, deadline: float, starts: Iterator[Array]) -> Generator[None, None, Points]:
        """The nearest valid cell, or the best until the deadline; it pauses now and then."""
        end = part_of(deadline, _PART)
        for decision in self._take_known(starts):
            self._meet(decision, deadline)
        boxes, top = self._boxes, np.diff(self.cells.start) - 1
        self._open(np.zeros_like(self.cells.home), top.astype(np.int32))
        while boxes.least < self._cutoff and self._in_time(end):
            self._look(boxes.take(_AT_ONCE, self._cutoff), deadline)
            yield
        bound = min(boxes.least, boxes.doubt, self._cutoff)
        return self._points(self._proof(self._tree(), bound), not self._in_time(end))

    def _bounded(self) -> RegretBounds:
        return RegretBounds(self.model, self.row)

    def _proof(self, boxes: BoxTree, bound: float) -> RegretProof:
        return RegretProof(boxes, bound, limits=self._far)

    def _meet(self, decision: Array, deadline: float) -> None:
        """Look for the nearest cell in which a decision is enough, if it is new."""
        if decision.tobytes() in self._met or len(self._met) >= _MET:
            return
        self._met.add(decision.tobytes())
        branched = self._about(decision)
        for _ in self._finish(branched, deadline, _BUDGET):
            pass
        self.looked += branched.branching.looked
        self._learn([cut.decision for cut in branched.cuts])

    def _learn(self, decisions: list[Array]) -> bool:
        """Whether decisions that were met say more about the criterion; here they do not."""
        return False

    def _about(self, decision: Array) -> Branched:
        """What a decision has to meet."""
        branched = Branched(self._root.fresh(), self.model, self.row)
        branched.add(decision, Quantifier.SOME)
        return branched

    def _number(self, decision: Array, which: int) -> int:
        """The number of the direction of a decision in one of the inequalities."""
        key = decision.tobytes(), which
        if key not in self._numbers:
            self._numbers[key] = self._directions.count
            direction = self._bounds.direction(decision, which)
            self._directions.add(self.model.per_cost @ direction, 0.0, 1.0)
        return self._numbers[key]

    def _look(self, chosen: list[int], deadline: float) -> None:
        """Refute boxes, or divide them."""
        boxes, root, count = self._boxes, self._root, len(chosen)
        low = np.array([boxes.low[box] for box in chosen])
        high = np.array([boxes.high[box] for box in chosen])
        cells = np.clip(self.cells.home, low, high).astype(np.int32)
        costs = np.array([root.costs(cell) for cell in cells])
        at = self._bounds.references(costs)
        self.solves += 2 * count
        again = self._judge_nearest(cells, at)
        ensemble, found = root.layout.ensemble, Spreads.room(count, costs.shape[1])
        spreads(
            root.forest, root.space, ensemble.values, ensemble.base, ensemble.single, low, high,
            costs, at.weights, self._cutoff, root.sizes, *found,
        )  # fmt: skip
        excess, worst = self._bounds.excess(at, found)
        self.looked += count
        constant = at.weights @ ensemble.base + at.directions @ self.model.fixed
        own = found.least + constant
        for k, box in enumerate(chosen):
            if excess[k] > 0:
                boxes.reason[box] = int(at.which[k])
            elif k in again or self._meets_limits(box):
                boxes.put_back(box)
            elif boxes.key[box] >= self._cutoff:
                continue  # as limits on sums of features show
            elif (low[k] == high[k]).all():
                boxes.doubt = min(boxes.doubt, boxes.key[box])
            else:
                # The decision that the bound is open for: the best one there, or another.
                decision = at.best[k] if own[k] <= 0 else worst[k]
                self._meet(decision, deadline)
                number = self._number(decision, int(at.which[k]))
                self._divide(box, number, max(-excess[k], 0.0))

    def _judge_nearest(self, cells: Ints, at: References) -> set[int]:
        """Take cells that meet the criterion, if they are the nearest of all.

        The places of cells that have taught why they do not: their boxes are worth another look.
        """
        taught = set()
        for k in np.flatnonzero(at.excess <= 0).tolist():
            cost = self.cells.loss(cells[k])
            if cost >= self._cutoff or not self._allowed(cells[k]):
                continue
            judged = self._judge.judge(cells[k])
            if judged.holds:
                self._take(cells[k], self.cells.context(cells[k]), cost)
            elif judged.decision is not None and self._learn([judged.decision]):
                taught.add(k)
        return taught

    def _allowed(self, cell: Ints) -> bool:
        """Whether a cell has exactly one 1 in each one-hot group, and keeps limits on sums."""
        x = self.cells.context(cell)
        one_each = all((x[list(group)] > 0.5).sum() == 1 for group in self.cells.groups)
        return one_each and self.places.allow(x)

    def _meets_limits(self, box: int) -> bool:
        """Judge the nearest cell of a box that keeps limits on sums; whether that has taught why.

        What the limits show the box to cost is its key from then on.
        """
        boxes = self._boxes
        if self.places.limits is None:
            return False
        low, high = boxes.low[box], boxes.high[box]
        place = self.places.nearest(low, high)
        if place.tree is None:  # its nearest cell keeps them
            return False
        taught = False
        if place.x is not None and place.loss < self._cutoff:
            cell = np.clip(self.places.cell_of(place.x), low, high)
            judged = self._judge.judge(cell)
            if judged.holds:
                self._take(cell, place.x, place.loss)
            elif judged.decision is not None:
                taught = self._learn([judged.decision])
        self._far[box] = place.tree
        boxes.key[box] = max(boxes.key[box], place.bound)
        return taught and boxes.key[box] < self._cutoff

    def _divide(self, box: int, cut: int, lacking: float) -> None:
        boxes, root = self._boxes, self._root
        self._far.pop(box, None)  # its parts speak for it
        low, high = boxes.low[box], boxes.high[box]
        size = float(self.model.sizes.sum())
        need = max(lacking, 1e-6 * size) if lacking < np.inf else size
        f, at = division(
            root.forest, root.space, self._directions.arrays, np.int64(cut), low, high, need,
            self._cutoff, root.sizes,
        )  # fmt: skip
        boxes.feature[box], boxes.at[box] = f, at
        first, last = high.copy(), low.copy()
        first[f], last[f] = at, at + 1
        boxes.left[box] = self._open(low, first)
        boxes.right[box] = self._open(last, high)

    def _open(self, low: Ints, high: Ints) -> int:
        cost = nearest(self._root.space, low, high, np.empty_like(low))
        return self._boxes.add(low, high, float(cost))

    def _tree(self) -> BoxTree:
        boxes = self._boxes
        return self._root.tree_of(boxes.feature, boxes.at, boxes.left, boxes.right, boxes.reason)


class _Boxes:
    """Boxes of cells, those that are open in a heap, the nearest first."""

    def __init__(self) -> None:
        self.low: list[Ints] = []
        self.high: list[Ints] = []
        self.key: list[float] = []
        self.feature: list[int] = []
        self.at: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.reason: list[int] = []
        #: The least cost of cells that could neither be refuted nor accepted.
        self.doubt = np.inf
        self._heap: list[tuple[float, int]] = []

    def add(self, low: Ints, high: Ints, key: float) -> int:
        """Add a box that costs at least as much as its key; its number."""
        box = len(self.key)
        self.low.append(low)
        self.high.append(high)
        self.key.append(key)
        for numbers in (self.feature, self.at, self.left, self.right, self.reason):
            numbers.append(-1)
        if key < np.inf:
            heappush(self._heap, (key, box))
        return box

    def put_back(self, box: int) -> None:
        """Open a box again."""
        heappush(self._heap, (self.key[box], box))

    @property
    def least(self) -> float:
        """What open boxes cost at least."""
        return self._heap[0][0] if self._heap else np.inf

    def take(self, count: int, cutoff: float) -> list[int]:
        """The nearest open boxes that cost less than a cutoff, at most `count` of them."""
        taken: list[int] = []
        while self._heap and len(taken) < count and self._heap[0][0] < cutoff:
            taken.append(heappop(self._heap)[1])
        return taken
