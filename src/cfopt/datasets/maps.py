"""Images of terrain, what their cells cost to visit, and the best routes across."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.ndimage
import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.problems.lattice import Cell
from cfopt.problems.terrain import TerrainShortestPath

#: What selects maps: one of them, a slice, indices or a mask.
Rows = int | slice | Tensor


@dataclass(frozen=True, eq=False)
class Maps:
    """N images of terrain, the costs of their cells and the cheapest paths across them.

    Arguments:
        images: uint8, channels first, `(N, 3, H, W)`.
        costs: the cost of visiting each cell, row by row, float32, `(N, rows * cols)`.
        paths: 1 where the cheapest path passes, else 0, float32, `(N, rows * cols)`.
        rows, cols: the cells of each map.
        sources, targets: each map's start and goal as (row, column), long, `(N, 2)`; None for the
            top left and the bottom right corner.
    """

    images: Tensor
    costs: Tensor
    paths: Tensor
    rows: int
    cols: int
    sources: Tensor | None = None
    targets: Tensor | None = None

    def __post_init__(self) -> None:
        count, cells = len(self.images), self.rows * self.cols
        if self.images.dtype != torch.uint8 or self.images.shape[1:2] != (3,):
            raise InputError(
                f"Maps needs images as uint8 of shape (N, 3, H, W), got {self.images.dtype} of "
                f"shape {tuple(self.images.shape)}. Put the channels first and scale to 0..255."
            )
        if (self.sources is None) != (self.targets is None):
            raise InputError("Maps needs both sources and targets, or neither. Pass the other.")
        shapes = {"costs": cells, "paths": cells, "sources": 2, "targets": 2}
        for name, width in shapes.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and given.shape != (count, width):
                raise InputError(
                    f"Maps of {self.rows} x {self.cols} cells with {count} images needs {name} of "
                    f"shape {(count, width)}, got {tuple(given.shape)}."
                )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Rows) -> Maps:
        """Some of the maps; a single one stays a batch of one."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):  # IndexError ends a loop over the maps
                raise IndexError(f"There are {len(self)} maps, got the index {rows}.")
            rows = torch.tensor([rows])
        return Maps(
            self.images[rows],
            self.costs[rows],
            self.paths[rows],
            self.rows,
            self.cols,
            None if self.sources is None else self.sources[rows],
            None if self.targets is None else self.targets[rows],
        )

    def contexts(self, rows: Rows = slice(None)) -> Tensor:
        """The images as a predictor reads them: float32 in [0, 1], `(B, 3, H, W)`.

        Those of all maps take four times the memory of `images`.
        """
        return self[rows].images.to(torch.float32) / 255

    @property
    def connected(self) -> Tensor:
        """Whether each path is in one piece, diagonals included, from start to goal, `(N,)`."""
        within_a_map = np.zeros((3, 3, 3))
        within_a_map[1] = 1
        visited = self.paths.reshape(-1, self.rows, self.cols) > 0
        labels, _ = scipy.ndimage.label(visited.numpy(force=True), within_a_map)
        pieces = torch.from_numpy(labels).flatten(1)
        corners = torch.tensor([[0, 0], [self.rows - 1, self.cols - 1]]).expand(len(self), 2, 2)
        start = corners[:, 0] if self.sources is None else self.sources.cpu()
        goal = corners[:, 1] if self.targets is None else self.targets.cpu()
        ends = torch.stack([start, goal], dim=1) @ torch.tensor([self.cols, 1])
        first, last = pieces.gather(1, ends).T
        alone = ((pieces == 0) | (pieces == first[:, None])).all(dim=1)
        connected: Tensor = (first > 0) & (first == last) & alone
        return connected

    @property
    def problem(self) -> TerrainShortestPath:
        """The shortest-path problem that every map poses."""
        start, goal = self._shared("sources"), self._shared("targets")
        return TerrainShortestPath(self.rows, self.cols, start=start or (0, 0), goal=goal)

    def _shared(self, name: str) -> Cell | None:
        cells: Tensor | None = getattr(self, name)
        if cells is None:
            return None
        found = {(int(row), int(col)) for row, col in cells.tolist()}
        if len(found) != 1:
            raise InputError(
                f"One problem needs {name} that all maps share, got {len(found)} different ones. "
                "Select the maps of one pair first, for example "
                "maps[((maps.sources == maps.sources[0]) & (maps.targets == maps.targets[0]))"
                ".all(dim=1)]."
            )
        return found.pop()
