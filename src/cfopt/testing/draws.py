"""What contracts share: random numbers, and functions looked at by value alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def normal(*shape: int, seed: int) -> Tensor:
    """Normal numbers in float64, the same each time."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@torch.no_grad()
def slopes(function: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-6) -> Tensor:
    """The gradient of a function of each row by finite differences: `(B, p) -> (B, p)`."""
    shifts = step * torch.eye(x.shape[1], dtype=x.dtype)
    found = [(function(x + shift) - function(x - shift)) / (2 * step) for shift in shifts]
    return torch.stack(found, dim=1)


@torch.no_grad()
def keeps_to_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether each row's result is the same alone, and in another order of the rows."""
    together = function(x)
    alone = torch.cat([function(row[None]) for row in x])
    return all(
        torch.allclose(one, together, rtol=1e-9, atol=1e-9)
        for one in (alone, function(x.flip(0)).flip(0))
    )
