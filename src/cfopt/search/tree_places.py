"""The nearest allowed context of a box of cells, limits on sums of features among what it keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.exact.geometry import Tree
from cfopt.exact.tree_task import TreeTask
from cfopt.trees.cells import Cells

_Cell = NDArray[np.int32]


class Place(NamedTuple):
    """The nearest allowed context of a box, None if there is none, its loss; and what is proved.

    The tree has the multipliers of limits on sums, where these decide.
    """

    x: Array | None
    loss: float
    bound: float
    tree: Tree | None


class Places:
    """The contexts of one row's cells.

    Arguments:
        model, row: the row of a task.
        cells: its cells.
    """

    def __init__(self, model: TreeTask, row: int, cells: Cells) -> None:
        self._model, self._cells, self._origin = model, cells, model.origin[row]
        self.limits = model.limits(row)

    def allow(self, x: Array) -> bool:
        """Whether a context keeps the limits on sums: `(p,) -> bool`."""
        return self.limits is None or self.limits.allow(x)

    def cell_of(self, x: Array) -> _Cell:
        """The cell of a context, `(p,)`."""
        return self._cells.cell_of(x, self._model.thresholds)

    def nearest(self, low: _Cell, high: _Cell) -> Place:
        """The nearest allowed context of a box of cells."""
        cells = self._cells
        near = np.clip(cells.home, low, high)
        x = cells.context(near)
        if self.limits is None or self.limits.allow(x):
            cost = cells.loss(near)
            return Place(x, cost, cost, None)
        first = cells.start[:-1]
        lower, upper = cells.lower[first + low], cells.upper[first + high]
        found = self.limits.nearest(lower, upper)
        if found.u is None:
            return Place(None, np.inf, found.bound, found.tree)
        x = np.clip(self.limits.context(found.u), lower, upper)
        units = self._model.space.proximity.units(len(x))
        loss = self._model.norm((x - self._origin) / units)
        return Place(x, loss, found.bound, found.tree)
