"""The best point of each row that a search has seen so far."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

from cfopt._batch import where_rows


class Incumbents:
    """The best valid point of each row or, while there is none, the least violating one.

    Arguments:
        x: the points where the search begins, `(B, ...)`.
        dtype: the dtype of losses.

    Attributes:
        loss: what is minimised, at the best valid point; inf where none is known, `(B,)`.
        excess: the least h seen, `(B,)`.
    """

    def __init__(self, x: Tensor, dtype: torch.dtype) -> None:
        self.x = x.clone()
        self.loss = torch.full((len(x),), torch.inf, dtype=dtype, device=x.device)
        self.excess = self.loss.clone()

    @property
    def found(self) -> Tensor:
        """Which rows have a valid point, `(B,)`."""
        return self.loss < torch.inf

    def __getitem__(self, rows: Tensor) -> Incumbents:
        """Those of some rows."""
        part = copy(self)
        part.x, part.loss, part.excess = self.x[rows], self.loss[rows], self.excess[rows]
        return part

    def update(
        self, rows: Tensor | None, x: Tensor, loss: Tensor, excess: Tensor, holds: Tensor
    ) -> None:
        """Compare with further points of some rows, none of which occurs twice.

        Arguments:
            rows: which, `(R,)`; None for all of them in order.
            x: the points, `(R, ...)`.
            loss: what is minimised, `(R,)`.
            excess: their h; inf where the point is not allowed, `(R,)`.
            holds: whether they are valid, `(R,)`.
        """
        loss, excess = loss.to(self.loss), excess.to(self.loss)
        least, lowest = self.loss, self.excess
        if rows is not None:
            least, lowest = least[rows], lowest[rows]
        nearer = holds & (loss < least)
        better = nearer | ((excess < lowest) & (least == torch.inf))
        loss, excess = torch.where(nearer, loss, least), torch.fmin(lowest, excess)
        if rows is None:
            self.x, self.loss, self.excess = where_rows(better, x, self.x), loss, excess
        else:
            self.loss[rows], self.excess[rows] = loss, excess
            if better.any():  # not the others: points may be large
                self.x[rows[better]] = x[better].to(self.x)

    def offer(self, rows: Tensor, x: Tensor, loss: Tensor, excess: Tensor, holds: Tensor) -> None:
        """The same with S further points of each row, `(R, S, ...)` and `(R, S)`."""
        valid = torch.where(holds, loss, torch.inf)
        order = torch.where(holds.any(1), valid.argmin(1), excess.argmin(1))
        best = (torch.arange(len(rows), device=rows.device), order)
        self.update(rows, x[best], loss[best], excess[best], holds[best])
