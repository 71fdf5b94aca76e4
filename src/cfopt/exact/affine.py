"""Predictors that are affine, known by structure or declared, as a matrix and a vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.positive import Positive, unaltered
from cfopt.pipeline import Adapted, Predictor

_IN_EACH_DIMENSION = (
    "Dropout",
    "Conv",
    "ConvTranspose",
    "AvgPool",
    "AdaptiveAvgPool",
    "ZeroPad",
)
#: Modules that are affine maps in eval mode. A subclass may do anything, so types must match.
_AFFINE: tuple[type[nn.Module], ...] = (
    nn.Identity,
    nn.Linear,
    nn.Flatten,
    nn.Unflatten,
    nn.Dropout,
    nn.AlphaDropout,
    nn.PixelShuffle,
    nn.PixelUnshuffle,
    *(getattr(nn, f"{name}{d}d") for name in _IN_EACH_DIMENSION for d in (1, 2, 3)),
)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
#: How far, as a fraction of their size, declared costs may be from an affine function.
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
    if isinstance(predictor, Adapted):
        return is_affine(predictor.translation)
    if isinstance(predictor, Positive):
        return is_affine(predictor.predictor)
    if not isinstance(predictor, nn.Module) or not unaltered(predictor):
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
        """Read off a task's affine predictor, in float64 on the host; once for an explanation.

        By unit vectors, where the predictor or a copy of it computes in float64; else by its
        Jacobian, whose entries do not suffer from a large bias.
        """
        known = {} if task.recall is None else task.recall.maps
        key = (id(task.predictor), task.space.origin.dtype, task.space.origin.shape[1:])
        fresh = key not in known
        if fresh:
            double = _in_double(task)
            read = cls._by_probes(task, double) if double is not None else cls._by_jacobian(task)
            read.weight.flags.writeable = read.bias.flags.writeable = False  # they are shared
            known[key] = task.predictor, read
        found: AffineMap = known[key][1]
        if fresh or _declared(task.predictor):
            found._check(task)
        return found

    @classmethod
    def _by_probes(cls, task: Task, prices: Callable[[Tensor], Array]) -> AffineMap:
        shape = task.space.origin.shape[1:]
        size = math.prod(shape)
        bias = prices(torch.zeros((1, *shape), dtype=torch.float64))[0]
        columns = []
        for start in range(0, size, _PROBES_AT_ONCE):
            count = min(_PROBES_AT_ONCE, size - start)
            probes = torch.zeros((count, size), dtype=torch.float64)
            probes[torch.arange(count), start + torch.arange(count)] = 1.0
            columns.append(prices(probes.reshape(-1, *shape)) - bias)
        return cls(np.concatenate(columns).T.copy(), bias)

    @classmethod
    def _by_jacobian(cls, task: Task) -> AffineMap:
        x = task.space.origin[:1].detach().clone().requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)[0]
            rows = [torch.autograd.grad(price, x, retain_graph=True)[0] for price in prices]
        weight = torch.cat(rows).flatten(1).double().cpu().numpy()
        there = prices.detach().double().cpu().numpy()
        return cls(weight, there - weight @ x.detach().flatten().double().cpu().numpy())

    def _check(self, task: Task) -> None:
        """Raise an error where the contexts themselves refute that a declared map is affine."""
        known = task.space.origin[task.space.origin.flatten(1).isfinite().all(1)]
        x = torch.cat([known, 2 * known, -known])
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


def _declared(predictor: Predictor) -> bool:
    """Whether that it is affine is only said of a predictor, or of a part of it."""
    modules = predictor.modules() if isinstance(predictor, nn.Module) else [predictor]
    return any(isinstance(one, Affine) or not isinstance(one, nn.Module) for one in modules)


def _in_double(task: Task) -> Callable[[Tensor], Array] | None:
    """Turned prices as a function in float64, if the predictor or a copy of it can give them."""
    predictor, origin = task.predictor, task.space.origin
    if origin.dtype != torch.float64:
        if not isinstance(predictor, nn.Module):
            return None
        predictor = deepcopy(predictor).to("cpu", torch.float64)
        origin = origin.cpu().double()

    def prices(x: Tensor) -> Array:
        with torch.no_grad():
            return task.rules.turned(predictor(x.to(origin))).cpu().numpy()

    try:
        return prices if prices(origin[:1]).dtype == np.float64 else None
    except (RuntimeError, TypeError):
        return None  # it insists on its own dtype
