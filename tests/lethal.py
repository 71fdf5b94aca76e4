"""A predictor that ends its process where a context is cursed; workers import it."""

from __future__ import annotations

import os

from torch import Tensor, nn

#: The value of the first feature that nobody survives.
CURSED = 1e6


class Lethal(nn.Module):
    """A linear predictor that does not raise an error, but ends the process."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] == CURSED).any()):
            os._exit(3)
        found: Tensor = self.layer(x)
        return found
