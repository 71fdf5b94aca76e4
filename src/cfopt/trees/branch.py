"""Branch and cut over boxes of cells for one row, in steps that a caller can interrupt."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cfopt._typing import Array
from cfopt.trees import kernels
from cfopt.trees.arrays import Boxes, Cuts, Forest, Ints
from cfopt.trees.bounds import leaves_at, nearest, values_at
from cfopt.trees.boxes import BoxTree
from cfopt.trees.cells import Cells
from cfopt.trees.layout import Layout, space_of

#: By what fraction of its size a cut must exceed its limit, so that sums in another order agree.
_MARGIN = 1e-10
#: How many boxes and cuts there is space for at first.
_BOXES, _CUTS = 256, 4


class CutPool:
    """The cuts of a row, with a score for each leaf; several branchings may share them.

    Arguments:
        layout: what all rows share.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.count = 0
        self.arrays = self._space(_CUTS)

    def tighten(self, cell: Ints, forest: Forest) -> None:
        """Lower the limit of the cut that a cell comes nearest to breaking, so that it breaks it.

        Arguments:
            cell: the cell, `(p,)`.
            forest: the trees of the row.
        """
        cuts, value = self.arrays, np.empty(self.count)
        values_at(forest, cuts, self.count, cell, value)
        c = int(((value - cuts.limit[: self.count]) / cuts.size[: self.count]).argmax())
        cuts.limit[c] = value[c] - 4 * _MARGIN * cuts.size[c]

    def add(self, weight: Array, limit: float, size: float) -> None:
        """Add a cut, `<costs without base, weight> <= limit`.

        Arguments:
            weight: one for each target, `(n,)`.
            limit: what the sum may be.
            size: the terms of the sum; rounding and violations are measured against it.
        """
        single, c = self._layout.single, self.count
        if c == len(self.arrays.limit):
            old, self.arrays = self.arrays, self._space(2 * c)
            for name in ("weight", "limit", "size"):
                getattr(self.arrays, name)[:c] = getattr(old, name)
            if not single:
                self.arrays.score[:, :c] = old.score
        cuts = self.arrays
        cuts.weight[c], cuts.limit[c], cuts.size[c] = weight, limit, size
        if not single:
            cuts.score[:, c] = self._layout.ensemble.values @ weight
        self.count += 1

    def _space(self, size: int) -> Cuts:
        ensemble, single = self._layout.ensemble, self._layout.single
        score = ensemble.values if single else np.zeros((len(ensemble.values), size))
        weight = np.zeros((size, ensemble.num_targets))
        return Cuts(single, np.array(score), weight, np.zeros(size), np.ones(size))


@dataclass(frozen=True)
class Question:
    """A cell that meets all cuts: does it meet the criterion?

    Arguments:
        box: the box that it is the nearest cell of.
        cell: the cell, `(p,)`.
        cost: what it costs.
    """

    box: int
    cell: Ints
    cost: float


class Branching:
    """The nearest cell that meets cuts, which may be added on the way.

    Call `advance` until it returns a question, answer it, and go on; it is done when nothing open
    costs less than the cutoff.

    Arguments:
        layout: what all rows share.
        cells: those of the row.
    """

    def __init__(self, layout: Layout, cells: Cells) -> None:
        self.layout, self.cells = layout, cells
        self.forest, self.space = layout.forest(cells), space_of(cells)
        self.cuts = CutPool(layout)
        self.sizes = layout.sizes.copy()
        self.sizes[4] = int(np.diff(cells.start).max()) + 1
        #: What a box must cost less than to be looked at.
        self.cutoff = np.inf
        #: The least cost of cells that could neither be refuted nor accepted.
        self.doubt = np.inf
        self._boxes = self._space_for_boxes(_BOXES)
        self.reset()

    def within(self, low: Ints, high: Ints) -> Branching:
        """The same among the cells of a box, with the same cuts."""
        other = copy(self)
        other.doubt = np.inf
        other._boxes = self._space_for_boxes(_BOXES)
        other.reset(low, high)
        return other

    def fresh(self) -> Branching:
        """The same without cuts."""
        other = copy(self)
        other.doubt = np.inf
        other.cuts = CutPool(self.layout)
        other._boxes = self._space_for_boxes(_BOXES)
        other.reset()
        return other

    def reset(self, low: Ints | None = None, high: Ints | None = None) -> None:
        """Begin again with all cells, or those of a box; cuts are kept."""
        boxes, near = self._boxes, np.empty_like(self.cells.home)
        boxes.low[0] = 0 if low is None else low
        boxes.high[0] = np.diff(self.cells.start) - 1 if high is None else high
        boxes.feature[0] = boxes.sliced[0] = boxes.reason[0] = -1
        boxes.key[0] = nearest(self.space, boxes.low[0], boxes.high[0], near)
        boxes.heap[0] = 0
        boxes.tally[:] = 1, 1, 0

    @property
    def bound(self) -> float:
        """What cells cost at least that are not refuted and cost less than the cutoff."""
        boxes = self._boxes
        open_boxes = boxes.key[boxes.heap[0]] if boxes.tally[1] else np.inf
        return float(min(open_boxes, self.cutoff, self.doubt))

    @property
    def looked(self) -> int:
        """How many boxes were looked at."""
        return int(self._boxes.tally[2])

    def costs(self, cell: Ints) -> Array:
        """What the leaves of a cell add up to: `(p,) -> (n,)`."""
        ensemble, leaves = self.layout.ensemble, np.empty(len(self.forest.roots), np.int32)
        leaves_at(self.forest, cell, leaves)
        found = ensemble.base.copy()
        if ensemble.single:
            np.add.at(found, ensemble.targets, ensemble.values[leaves, 0])
        else:
            found += ensemble.values[leaves].sum(axis=0)
        return found

    def advance(self, budget: int) -> Question | None:
        """Look at up to `budget` boxes, or until a cell needs to be judged."""
        asked = np.empty_like(self.cells.home)
        while True:
            why, box = kernels.search(
                self.forest,
                self.space,
                self.cuts.arrays,
                self.cuts.count,
                self._boxes,
                self.cutoff,
                _MARGIN,
                budget,
                asked,
                self.sizes,
            )
            if why == kernels.FULL:
                self._grow()
            else:
                break
        if why != kernels.ASK:
            return None
        return Question(int(box), asked, self.cells.loss(asked))

    @property
    def done(self) -> bool:
        """Whether nothing open costs less than the cutoff."""
        boxes = self._boxes
        return not boxes.tally[1] or bool(boxes.key[boxes.heap[0]] >= self.cutoff)

    def again(self, question: Question) -> None:
        """Look at the box of a question again, after new cuts or with a new cutoff."""
        kernels.push(self._boxes, question.box)

    def without(self, question: Question) -> None:
        """Go on without a cell that meets all cuts but not the criterion."""
        self.doubt = min(self.doubt, question.cost)
        self.divide_around(question)

    def divide_around(self, question: Question) -> bool:
        """Divide the box of a question next to its cell; False if it holds no other cell."""
        low, high = self.extent(question)
        f = int((high - low).argmax())
        if low[f] == high[f]:
            return False
        self.divide(question, f, int(question.cell[f]) - int(question.cell[f] == high[f]))
        return True

    def extent(self, question: Question) -> tuple[Ints, Ints]:
        """The first and last cells of the box of a question, `(p,)` each."""
        return self._boxes.low[question.box], self._boxes.high[question.box]

    def divide(self, question: Question, f: int, at: int) -> None:
        """Divide the box of a question by a feature after one of its cells."""
        if self._boxes.tally[0] + 2 > len(self._boxes.key):
            self._grow()
        boxes, box = self._boxes, question.box
        kernels.divide(boxes, self.space, box, f, at, np.empty_like(question.cell))
        for part in (int(boxes.left[box]), int(boxes.right[box])):
            if boxes.key[part] < np.inf:
                kernels.push(boxes, part)

    def tree(self) -> BoxTree:
        """What was looked at, as a tree of boxes that can be checked."""
        boxes, count = self._boxes, int(self._boxes.tally[0])
        parts = (boxes.feature, boxes.at, boxes.left, boxes.right, boxes.reason, boxes.sliced)
        return self.tree_of(*(part[:count] for part in parts))

    def tree_of(
        self,
        feature: ArrayLike,
        at: ArrayLike,
        left: ArrayLike,
        right: ArrayLike,
        reason: ArrayLike,
        sliced: ArrayLike | None = None,
    ) -> BoxTree:
        """Boxes that are divided after cells of the row, `(N,)` each, as those of contexts."""
        divided, after = np.array(feature, dtype=np.int32), np.array(at, dtype=np.int32)
        inner = np.flatnonzero(divided >= 0)
        threshold = np.zeros(len(divided))
        numbers = self.cells.number[self.cells.start[divided[inner]] + after[inner]]
        threshold[inner] = [
            self.layout.thresholds[f][j] for f, j in zip(divided[inner], numbers, strict=True)
        ]
        return BoxTree(
            divided,
            threshold,
            np.array(left, dtype=np.int32),
            np.array(right, dtype=np.int32),
            np.array(reason, dtype=np.int32),
            np.full(len(divided), -1, np.int32) if sliced is None else np.array(sliced, np.int32),
        )

    def _space_for_boxes(self, size: int) -> Boxes:
        p = len(self.cells.home)
        size = max(size, 32 * (p + 1))
        integers = [np.zeros(size, dtype=np.int32) for _ in range(7)]
        ranges = [np.zeros((size, p), dtype=np.int32) for _ in range(2)]
        return Boxes._make([*ranges, np.zeros(size), *integers, np.zeros(3, dtype=np.int64)])

    def _grow(self) -> None:
        old = self._boxes
        self._boxes = self._space_for_boxes(2 * len(old.key))
        for name in Boxes._fields:
            part = getattr(old, name)
            getattr(self._boxes, name)[: len(part)] = part
