"""A proximity from outside the package: nearly L1, and smooth where nothing changes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt import registry
from cfopt.question.proximity import Proximity


@registry.proximities.register
@dataclass(frozen=True)
class Smooth(Proximity):
    """`sum_j sqrt(c_j^2 + width^2) - width` of the scaled change c."""

    width: float = 0.1

    @property
    def words(self) -> str:
        return "by a smooth sum of all changes"

    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        change = self._change(x, origin)
        root = (change.square() + self.width**2).sqrt()
        value = torch.flatten(root - self.width, 1).sum(1)
        return value, self._unscaled(change / root)
