"""Predictors that are affine, known by structure or declared, as a matrix and a vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.task import Task
from cfopt.types import Array

#: Modules that are affine maps in eval mode. A subclass may do anything, so types must match.
_AFFINE: tuple[type[nn.Module], ...] = (
    nn.Identity,
    nn.Linear,
    nn.Flatten,
    nn.Unflatten,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.PixelShuffle,
    nn.PixelUnshuffle,
    nn.ZeroPad1d,
    nn.ZeroPad2d,
    nn.ZeroPad3d,
)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
#: How far, as a part of their size, declared costs may be from an affine function.
_DECLARED_TOLERANCE = 1e-4
#: How many unit vectors are put through the predictor in one batch.
_PROBES_AT_ONCE = 1024


class Affine(nn.Module):
    """A predictor that its owner declares to be affine: `costs = W x + b`.

    Exact searches rest on this declaration. Needed for functions and for modules with a forward
    pass of their own; chains of torch's own affine modules are recognised without it.

    Arguments:
        predictor: a module or a function, `(B, ...) -> (B, n)`.
    """

    def __init__(self, predictor: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(predictor):
            raise InputError(
                f"Affine needs a predictor that can be called, got {type(predictor).__name__}."
            )
        self.predictor = predictor

    def forward(self, x: Tensor) -> Tensor:
        """What the predictor gives."""
        return self.predictor(x)


def is_affine(predictor: object) -> bool:
    """Whether a predictor in eval mode is known to be affine.

    Never by sampling: a ReLU network is affine nearby, and would yield false proofs.
    """
    if isinstance(predictor, Affine):
        return True
    if not isinstance(predictor, nn.Module) or predictor._forward_hooks:
        return False
    if predictor._forward_pre_hooks:
        return False
    if type(predictor) is nn.Sequential:
        return all(is_affine(module) for module in predictor)
    if type(predictor) in _NORMS:
        # Without running statistics it normalises by the batch, in eval mode too.
        return predictor.running_mean is not None
    return type(predictor) in _AFFINE


@dataclass(frozen=True)
class AffineMap:
    """Turned prices as a function of flattened contexts: `prices = weight @ x + bias`.

    Arguments:
        weight: `(m, p)`.
        bias: `(m,)`.
    """

    weight: Array
    bias: Array

    @classmethod
    def of(cls, task: Task) -> AffineMap:
        """Read off a task's affine predictor, in float64 on the host."""
        shape = task.origin.shape[1:]
        size = math.prod(shape)
        bias = _in_double(task, torch.zeros((1, *shape), dtype=torch.float64))[0]
        columns = []
        for start in range(0, size, _PROBES_AT_ONCE):
            count = min(_PROBES_AT_ONCE, size - start)
            probes = torch.zeros((count, size), dtype=torch.float64)
            probes[torch.arange(count), start + torch.arange(count)] = 1.0
            columns.append(_in_double(task, probes.reshape(-1, *shape)) - bias)
        found = cls(np.concatenate(columns).T.copy(), bias)
        found._check(task)
        return found

    def _check(self, task: Task) -> None:
        """Refute, where the contexts themselves do, that a declared map is affine."""
        known = task.origin.flatten(1).isfinite().all(1)
        x = torch.cat([task.origin[known], 2 * task.origin[known], -task.origin[known]])
        with torch.no_grad():
            there = task.prices(x).double().cpu().numpy()
        flat = x.flatten(1).double().cpu().numpy()
        here = flat @ self.weight.T + self.bias
        size = np.abs(flat) @ np.abs(self.weight).T + np.abs(self.bias)
        if (np.abs(here - there) > _DECLARED_TOLERANCE * size.max(axis=1, keepdims=True)).any():
            raise InputError(
                "The predictor is declared to be affine, but its costs at the contexts are not "
                "those of an affine map. Leave the declaration out: Sequential and MDMM explain "
                "any differentiable predictor."
            )


def _in_double(task: Task, x: Tensor) -> Array:
    """Turned prices in float64, with a copy of the predictor in float64 where it can be had."""
    predictor = task.pipeline.predictor
    like = task.origin
    with torch.no_grad():
        if like.dtype != torch.float64 and isinstance(predictor, nn.Module):
            try:
                costs = deepcopy(predictor).to("cpu", torch.float64)(x)
                if costs.dtype == torch.float64:
                    return task.turned(costs).numpy()
            except (RuntimeError, TypeError):
                pass  # a predictor that insists on its own dtype
        return task.prices(x.to(like)).double().cpu().numpy()
