"""A predictor that remembers how it came to its last costs, so that slopes need no other pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfopt.pipeline import Predictor


class Recorded(nn.Module):
    """A predictor whose last call can be differentiated after the fact.

    A call without a graph of its own records one; `graph` finds it again by its contexts. So the
    forward pass that judges a context serves the slopes there as well.

    Arguments:
        predictor: `(B, ...) -> (B, n)`, with a gradient.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor
        self._last: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """The costs, `(B, ...) -> (B, n)`."""
        if torch.is_grad_enabled() and x.requires_grad:
            return self.predictor(x)
        self._last = None  # so that only one graph is held at a time
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_()
            costs = self.predictor(leaf)
        self._last = leaf, costs
        return costs.detach()

    def graph(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """The recorded contexts and costs, and which of them are those of x, `(R,)`, in order.

        None where x, `(R, ...)`, is not part of what was recorded last.
        """
        if self._last is None:
            return None
        leaf, costs = self._last
        found: list[int] = []
        for context in x:
            start = found[-1] + 1 if found else 0
            same = (k for k in range(start, len(leaf)) if torch.equal(leaf[k], context))
            place = next(same, None)
            if place is None:
                return None
            found.append(place)
        return leaf, costs, torch.tensor(found, device=x.device)
