"""What edits put in place: parts of known contexts, sorted into a few kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cfopt.errors import InputError

#: Rounds of the clustering; it settles long before.
_ROUNDS = 50
#: The number of cells that are clustered; others are sorted into the kinds that these make.
_CLUSTERED = 20_000


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Contexts whose parts may take the place of a context's own, part by part.

    Each is of one kind all over: a map that is all grass, a row of the lowest values seen.

    Arguments:
        contexts: one for each kind, `(K, ...)`.
        names: what the kinds are called; () for no names.
    """

    contexts: Tensor
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.contexts.is_floating_point() or self.contexts.ndim < 2:
            raise InputError(
                "Vocabulary needs contexts of shape (K, ...) as floats, got "
                f"{tuple(self.contexts.shape)} in {self.contexts.dtype}."
            )
        if not len(self.contexts) or not bool(self.contexts.isfinite().all()):
            raise InputError("Vocabulary needs one or more contexts, all of them finite.")
        if self.names and len(self.names) != len(self.contexts):
            raise InputError(
                f"Vocabulary needs a name for each of {len(self.contexts)} kinds, got "
                f"{len(self.names)}."
            )

    @classmethod
    def of_cells(cls, maps: Tensor, rows: int, cols: int, kinds: int = 6) -> Vocabulary:
        """Cells cut from known maps, sorted into kinds by their colours; each keeps its place.

        At every place, a kind is shown by the known cell of that place that is most like the
        kind's average: patterns that run on from cell to cell fit their surroundings.

        Arguments:
            maps: `(N, C, H, W)`.
            rows, cols: cells of a map.
            kinds: how many, at most.
        """
        cells = cut(maps, rows, cols)
        looks = torch.cat([cells.mean(4), cells.std(4, correction=0)], dim=3)
        centres = _centres(looks.flatten(0, 2), kinds)
        away = torch.cdist(looks.flatten(1, 2).transpose(0, 1), centres[None])
        chosen = away.argmin(1)  # (places, kinds)
        every = cells.flatten(1, 2)[chosen.T, torch.arange(rows * cols)]
        count, (height, width) = len(centres), maps.shape[2:]
        shape = (count, rows, cols, maps.shape[1], height // rows, width // cols)
        return cls(every.reshape(shape).permute(0, 3, 1, 4, 2, 5).reshape(count, *maps.shape[1:]))

    @classmethod
    def of_values(cls, known: Tensor, unit: np.ndarray, kinds: int = 12) -> Vocabulary:
        """Values seen in a table, from the lowest to the highest of each column, `(N, p)`.

        Columns that change together, such as the values of a category, are taken together.

        Arguments:
            known: the table.
            unit: which columns change together, by number, `(p,)`.
            kinds: how many values of a column, at most; if it has more, they are evenly ranked.
        """
        contexts = known[:1].repeat(kinds, 1)
        for one in np.unique(unit):
            columns = torch.from_numpy(np.flatnonzero(unit == one))
            values, counts = torch.unique(known[:, columns], dim=0, return_counts=True)
            if len(columns) > 1:
                values = values[counts.argsort(descending=True, stable=True)]
                picked = torch.arange(kinds).clamp(max=len(values) - 1)
            elif len(values) <= kinds:
                picked = torch.arange(kinds).clamp(max=len(values) - 1)
            else:
                values = known[:, columns].sort(dim=0).values
                picked = torch.linspace(0, len(values) - 1, kinds).round().long()
            contexts[:, columns] = values[picked]
        return cls(contexts)


def cut(maps: Tensor, rows: int, cols: int) -> Tensor:
    """The cells of maps: `(N, C, H, W) -> (N, rows, cols, C, pixels)`."""
    if maps.ndim != 4 or maps.shape[2] % rows or maps.shape[3] % cols:
        raise InputError(
            f"Cells need maps of shape (N, C, H, W) with whole cells in {rows} rows and {cols} "
            f"columns, got shape {tuple(maps.shape)}."
        )
    count, channels, height, width = maps.shape
    parts = maps.reshape(count, channels, rows, height // rows, cols, width // cols)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(4)


def _centres(looks: Tensor, kinds: int) -> Tensor:
    """The centres of clusters, by k-means from the points that are farthest apart: `(K, d)`."""
    step = max(1, len(looks) // _CLUSTERED)
    points = looks[::step].double()
    centres = points.mean(0, keepdim=True)
    away = torch.full((len(points),), torch.inf, dtype=torch.float64)
    first = int((points - centres).square().sum(1).argmin())
    chosen = [first]
    while len(chosen) < kinds:
        away = away.minimum((points - points[chosen[-1]]).square().sum(1))
        if float(away.max()) <= 0:
            break  # fewer different cells than kinds
        chosen.append(int(away.argmax()))
    centres = points[chosen]
    for _ in range(_ROUNDS):
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        sizes = torch.bincount(nearest, minlength=len(centres))[:, None]
        moved = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres.to(looks.dtype)
