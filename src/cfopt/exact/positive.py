"""Predictors whose costs are all above 0, known by structure or declared."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.pipeline import Adapted

#: Modules that hand on the entries that they get, in eval mode.
_HANDING_ON = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout)


class Positive(nn.Module):
    """A predictor that its owner declares to give costs above 0 only, whatever the context.

    Proofs that a plan can never be best rest on this declaration. Chains of torch's modules that
    end in a Softplus or a Sigmoid are recognised without it. What is computed as 0 passes for a
    cost that is too small for its dtype.

    Arguments:
        predictor: a module or a function, `(B, ...) -> (B, n)`; one that is affine as well is
            `Positive(Affine(predictor))`.
    """

    def __init__(self, predictor: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(predictor):
            raise InputError(
                f"Positive needs a predictor that can be called, got {type(predictor).__name__}."
            )
        self.predictor = predictor

    def forward(self, x: Tensor) -> Tensor:
        """What the predictor gives."""
        return self.predictor(x)


def unaltered(module: nn.Module) -> bool:
    """Whether a module computes what its class says: nothing is put in its place or around it."""
    return not ("forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks)


def is_positive(predictor: object) -> bool:
    """Whether all costs of a predictor in eval mode are known to be above 0, never by sampling.

    A class may say so of itself by `positive_costs = True`; its subclasses may do anything, and say
    so for themselves.
    """
    if isinstance(predictor, Positive):
        return True
    if isinstance(predictor, Adapted):
        return is_positive(predictor.translation)
    if not isinstance(predictor, nn.Module) or not unaltered(predictor):
        return False
    if type(predictor) is nn.Sequential:
        for module in reversed(predictor):
            if not (type(module) in _HANDING_ON and unaltered(module)):
                return is_positive(module)
        return False
    if type(predictor) is nn.Softplus:
        return float(predictor.beta) > 0
    return type(predictor) is nn.Sigmoid or vars(type(predictor)).get("positive_costs") is True


def check_positive(task: Task) -> None:
    """Raise an error where the contexts themselves refute that declared costs are above 0."""
    if not isinstance(task.predictor, Positive):
        return
    known = task.space.origin[task.space.origin.flatten(1).isfinite().all(1)]
    with torch.no_grad():
        costs = task.pipeline.predict(known)
    if (costs < 0).any():
        raise InputError(
            "The predictor is declared to give costs above 0, but at the contexts it gives "
            f"{float(costs.min()):.3g}. Leave the declaration out."
        )
