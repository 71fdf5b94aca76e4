"""Prices of which only some are predicted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt._typing import Array, Indices


@dataclass(frozen=True)
class PartialCosts:
    """Prices of which only some columns are predicted: `price = fixed + scatter(costs)`.

    Arguments:
        columns: the decision column that each predicted cost lands on, `(n,)`.
        fixed: what every column costs in any case, `(m,)`.
    """

    columns: Indices
    fixed: Array

    def __call__(self, costs: Tensor) -> Tensor:
        """The price of every column: `(B, n) -> (B, m)`, differentiable."""
        fixed = torch.as_tensor(self.fixed, dtype=costs.dtype, device=costs.device)
        columns = torch.as_tensor(self.columns, dtype=torch.long, device=costs.device)
        return fixed.expand(len(costs), -1).index_add(1, columns, costs)
