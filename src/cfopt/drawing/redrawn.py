"""What the generative model alone makes of a context, against which its answers are measured."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: Contexts that differ by no more, as a fraction of a colour's range, look the same: 1 of 255.
_SEEN = 1 / 255


@dataclass(frozen=True)
class Origin:
    """What the answer of a row is compared with.

    Arguments:
        context: the factual context, or what the generative model makes of it, `(...)`.
        costs: the predicted costs there, `(n,)`.
        redrawn: whether it is the model's.
    """

    context: Tensor
    costs: Tensor
    redrawn: bool


def origin_of(one: Explanation) -> Origin:
    """What changed in a single row is measured from here.

    An answer among codes differs from the context also in what the model cannot draw, which says
    nothing about the question: it is compared with the model's own picture of the context. Where
    that is the context itself, as behind an anchored decoder, or was not used, with the context.
    """
    latent = one.latent
    searched = one.status[0].is_found or one.status[0] is Status.BEST_EFFORT
    if latent is not None and searched:
        context, costs = latent.reconstruction[0], latent.costs[0]
        known = bool(context.isfinite().all()) and bool(costs.isfinite().all())
        if known and float((context - one.x0[0]).abs().max()) > _SEEN:
            return Origin(context, costs, redrawn=True)
    return Origin(one.x0[0], one.costs_before[0], redrawn=False)
