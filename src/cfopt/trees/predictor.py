"""A tree ensemble as the predictor of a pipeline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfopt.trees.ensemble import TreeEnsemble


class TreePredictor(nn.Module):
    """Contexts in, costs out: `(B, p) -> (B, n)` in float64, without a gradient.

    Costs are sums in float64 of the leaves that the library itself would reach.

    Arguments:
        ensemble: the trees.
    """

    #: What contexts are made of where they are not tensors.
    dtype = torch.float64

    def __init__(self, ensemble: TreeEnsemble) -> None:
        super().__init__()
        self.ensemble = ensemble

    def forward(self, x: Tensor) -> Tensor:
        """The costs of contexts: `(B, p) -> (B, n)`."""
        contexts = x.detach().to("cpu", torch.float64).numpy()
        return torch.from_numpy(self.ensemble.predict(contexts)).to(x.device)
