"""Where searches move: among contexts, or among the codes of a generative model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.engine.latent import LatentSpace
from cfopt.question.domain import Domain
from cfopt.question.local_outlier import Surroundings
from cfopt.question.proximity import Latent, Proximity


class LossAndGradient(NamedTuple):
    """What is minimised, `(B,)`, and its gradients: by contexts `(B, ...)`, and by codes `(B, n)`.

    None stands for a gradient of 0.
    """

    loss: Tensor
    by_context: Tensor | None
    by_point: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Space(Batch):
    """The points that searches move through, and what they keep small.

    Points are the contexts themselves, or their codes where a generative model is used.

    Arguments:
        origin: the factual contexts, `(B, ...)`.
        proximity: what to keep small.
        domain: the contexts that are allowed; None if all are.
        start: the points where searches begin, `(B, ...)`; by default the origins.
        latent: the codes that are searched instead of contexts, if any.
        surroundings: the known contexts that answers must be like, if they must.
    """

    origin: Tensor = field(metadata=ROWS)
    proximity: Proximity
    domain: Domain | None = field(default=None, metadata=ROWS)
    start: Tensor | None = field(default=None, metadata=ROWS)
    latent: LatentSpace | None = field(default=None, metadata=ROWS)
    surroundings: Surroundings | None = None

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def home(self) -> Tensor:
        """The point of each factual context: itself, or its code, `(B, ...)`."""
        return self.origin if self.latent is None else self.latent.codes

    @property
    def beginning(self) -> Tensor:
        """The points where searches begin, `(B, ...)`."""
        return self.home if self.start is None else self.start

    def context(self, point: Tensor) -> Tensor:
        """The contexts of points: themselves, or what codes are decoded to, `(B, ...)`."""
        return point if self.latent is None else self.latent.decode(point)

    def shown(self, point: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same, and by how much a generative model is more undecided there, `(B,)`, if it is.

        In one pass: to be handed to `loss_at` or `pull`, which would have to ask the model again.
        """
        return (point, None) if self.latent is None else self.latent.shown(point)

    def allows(self, x: Tensor) -> Tensor:
        """Whether each context keeps to its limits: `(B, ...) -> (B,)`."""
        if self.domain is None:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
        return self.domain.allows(x)

    def strangeness(self, x: Tensor) -> Tensor:
        """By what fraction each context is too unlike the known ones; 0 if not: `(B,)`."""
        if self.surroundings is None:
            return torch.zeros(len(x), dtype=torch.float64, device=x.device)
        return self.surroundings.excess(x)

    def pull(self, point: Tensor, x: Tensor, more: Tensor | None = None) -> LossAndGradient:
        """What is minimised, at points and their contexts: proximity, and plausibility of codes.

        Where `shown` has said by how much the model is more undecided, the loss contains it, but
        not the gradient, for which the caller has the graph.
        """
        if self.latent is None:
            return LossAndGradient(*self.proximity.evaluate(x, self.origin))
        if isinstance(self.proximity, Latent):
            loss, by_point = self.proximity.evaluate(point, self.latent.codes)
            by_context = None
        else:
            loss, by_context = self.proximity.evaluate(x, self.origin)
            by_point = None
        if self.latent.plausibility is not None:
            penalty, slope = self.latent.penalty(point, more)
            loss, by_point = loss + penalty, slope if by_point is None else by_point + slope
        return LossAndGradient(loss, by_context, by_point)

    def loss(self, point: Tensor) -> Tensor:
        """What is minimised: `(B, ...) -> (B,)`."""
        with torch.no_grad():
            return self.loss_at(point, *self.shown(point))

    def loss_at(self, point: Tensor, x: Tensor, more: Tensor | None = None) -> Tensor:
        """The same at points and what `shown` has said of them, without the gradients of `pull`."""
        if self.latent is None or not isinstance(self.proximity, Latent):
            loss = self.proximity(x, self.origin)
        else:
            loss = self.proximity(point, self.latent.codes)
        if self.latent is None or self.latent.plausibility is None:
            return loss
        return loss + self.latent.implausibility(point, more)

    def gradient(
        self, point: Tensor, x: Tensor, pull: LossAndGradient, prices: Tensor, weight: Tensor
    ) -> Tensor:
        """That of `loss + <weight, prices>` with respect to points, in one backward pass.

        Arguments:
            point: `(B, ...)`; x and prices were computed from it with a graph.
            pull: the loss there.
            weight: one for each price, `(B, m)`.
        """
        if self.latent is None:
            (push,) = torch.autograd.grad(prices, point, weight)
            return push if pull.by_context is None else push + pull.by_context
        outputs, seeds = [prices], [weight]
        if pull.by_context is not None:
            outputs, seeds = [*outputs, x], [*seeds, pull.by_context]
        (push,) = torch.autograd.grad(outputs, point, seeds)
        return push if pull.by_point is None else push + pull.by_point
