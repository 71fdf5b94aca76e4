"""Predictors that end or hold their process where a context is cursed; workers import them."""

from __future__ import annotations

import os
import time
from pathlib import Path

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


class Hanging(nn.Module):
    """A linear predictor with calls that do not end until a file is there.

    Arguments:
        layer: the predictor.
        folder: where the process that hangs puts a file of its number, and waits for "end".
        company: hang only where the context is not alone.
    """

    def __init__(self, layer: nn.Linear, folder: Path, company: bool = False) -> None:
        super().__init__()
        self.layer, self.folder, self.company = layer, folder, company

    def forward(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] == CURSED).any()) and (len(x) > 1 or not self.company):
            (self.folder / str(os.getpid())).touch()
            while not (self.folder / "end").exists():
                time.sleep(0.01)
        found: Tensor = self.layer(x)
        return found
