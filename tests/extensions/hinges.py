"""A predictor from outside the package, made by a function."""

import torch
from torch import Tensor, nn

from cfopt import registry


class Hinges(nn.Module):
    """`base + softplus(x w)`: every cost rises with every feature."""

    def __init__(self, features: int, costs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, costs, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return 1 + nn.functional.softplus(x @ self.weight.to(x))


@registry.predictors.register
def hinges(features: int, costs: int, seed: int = 0) -> Hinges:
    """Hinges with weights that a seed determines."""
    model = Hinges(features, costs)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        drawn = torch.rand((features, costs), generator=generator, dtype=torch.float64)
        model.weight.copy_(drawn - 0.3)
    return model
