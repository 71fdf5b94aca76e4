"""Where edits go: the cells of images with blended borders, or the columns of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Indices

#: One edit: the number of its place, and the number of what is put there.
Edit = tuple[int, int]


class Places(ABC):
    """Parts of a context that edits can replace, each with a name."""

    names: Sequence[str]

    @abstractmethod
    def put(self, x: Tensor, parts: Tensor, edits: Sequence[Edit]) -> Tensor:
        """A context with edits, in whatever order: `(...), (K, ...) -> (...)`.

        Arguments:
            x: the context.
            parts: what can be put in place, of each kind.
            edits: no two of the same place.
        """

    @property
    @abstractmethod
    def are_apart(self) -> bool:
        """Whether no two edits change the same entry."""

    @abstractmethod
    def entries(self, place: int) -> Tensor:
        """The entries of a flat context that an edit changes, as a mask, `(p,)`."""


@dataclass(frozen=True, eq=False)
class CellPlaces(Places):
    """The cells of images.

    Arguments:
        names: the names of the cells, row by row.
        size: rows and columns.
        shape: the shape of an image, `(C, H, W)`.
        blend: over how many pixels an edit fades into what is there; half of them are outside.
    """

    names: Sequence[str]
    size: tuple[int, int]
    shape: tuple[int, int, int]
    blend: int

    @cached_property
    def _masks(self) -> Tensor:
        """How much of each pixel an edit replaces, `(places, H, W)`; corners are round."""
        (rows, cols), (_, height, width) = self.size, self.shape
        y, x = torch.arange(height) + 0.5, torch.arange(width) + 0.5
        masks = []
        for row in range(rows):
            for col in range(cols):
                beyond = []
                for at, k, cell, last in (
                    (y, row, height // rows, rows - 1),
                    (x, col, width // cols, cols - 1),
                ):
                    # What is beyond the image is as if it were inside.
                    low = at if k == 0 else at - k * cell
                    high = torch.full_like(at, cell) if k == last else (k + 1) * cell - at
                    low = torch.full_like(at, cell) if k == 0 else low
                    beyond.append(self.blend / 2 - torch.minimum(low, high))
                down, across = torch.meshgrid(*beyond, indexing="ij")
                outside = torch.hypot(down.clamp(min=0), across.clamp(min=0))
                masks.append((1 - outside / max(self.blend, 1e-9)).clamp(0, 1))
        return torch.stack(masks)

    def put(self, x: Tensor, parts: Tensor, edits: Sequence[Edit]) -> Tensor:
        """Edits of one kind side by side have no border between them."""
        kinds = sorted({kind for _, kind in edits})
        if not kinds:
            return x
        weights = torch.stack(
            [self._masks[[p for p, k in edits if k == kind]].sum(0).clamp(max=1) for kind in kinds]
        ).to(x)
        total = weights.sum(0).clamp(min=1)
        weights = weights / total
        return (1 - weights.sum(0)) * x + (weights[:, None] * parts[kinds].to(x)).sum(0)

    @property
    def are_apart(self) -> bool:
        """Borders that fade into what is there overlap."""
        return self.blend == 0

    def entries(self, place: int) -> Tensor:
        """Every pixel that is not left as it is."""
        return (self._masks[place] > 0).expand(self.shape).flatten()


@dataclass(frozen=True, eq=False)
class ColumnPlaces(Places):
    """The columns of a table, or those that change together.

    Arguments:
        names: the names of the places.
        unit: the place of each column, `(p,)`.
    """

    names: Sequence[str]
    unit: Indices

    def put(self, x: Tensor, parts: Tensor, edits: Sequence[Edit]) -> Tensor:
        """Values as they were seen."""
        edited = x.flatten().clone()
        for place, kind in edits:
            mask = self.entries(place)
            edited[mask] = parts[kind].flatten()[mask].to(x)
        return edited.view_as(x)

    @property
    def are_apart(self) -> bool:
        """Every column has one place."""
        return True

    def entries(self, place: int) -> Tensor:
        """The columns of the place."""
        return torch.from_numpy(np.equal(self.unit, place))
