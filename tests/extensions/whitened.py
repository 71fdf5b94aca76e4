"""A generative model from outside the package, which is not a torch.nn.Module."""

import torch
from torch import Tensor

from cfopt import registry


@registry.generative_models.register
class Whitened:
    """Codes of independent features: `z = (x - mean) / spread`."""

    def __init__(self, mean: list[float], spread: list[float]) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float64)
        self.spread = torch.tensor(spread, dtype=torch.float64)
        self.latent_dim = len(mean)

    def encode(self, x: Tensor) -> Tensor:
        return (x - self.mean.to(x)) / self.spread.to(x)

    def decode(self, z: Tensor) -> Tensor:
        return z * self.spread.to(z) + self.mean.to(z)
