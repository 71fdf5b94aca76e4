"""A latent task near some codes: prices to first order, the loss to second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cfopt.proximity import L1, Latent, Proximity
from cfopt.task import Task
from cfopt.types import Array

#: How far an entry of a code is moved to see its effect; codes have about unit size.
_DELTA = 1e-2
#: A change that is as good as none.
_SMALL = 1e-3
#: How many numbers of decoded contexts are held at once.
_NUMBERS_AT_ONCE = 12_000_000


class Slopes(NamedTuple):
    """First derivatives at R codes: of weighed prices `(R, k, n)`, and of the loss `(R, n)`.

    Beside them the number of passes that each code took.
    """

    prices: Array
    loss: Array
    passes: int


@dataclass(frozen=True)
class Linearised:
    """What moving a code by p does, for R codes.

        prices(p) = prices + jacobian p
        loss(p)   = loss + slope p + 1/2 p' curvature p

    Arguments:
        prices: turned, `(R, m)`.
        jacobian: `(R, m, n)`.
        loss: `(R,)`.
        slope: `(R, n)`.
        curvature: the Gauss-Newton matrix, positive semidefinite, `(R, n, n)`.
    """

    prices: Array
    jacobian: Array
    loss: Array
    slope: Array
    curvature: Array


def linearise(task: Task, z: Tensor) -> Linearised:
    """Decode and predict around each code, entry by entry: `(R, n) -> Linearised`.

    With differences, n + 1 forward passes give the derivatives of all prices and all pixels at
    once, where backward passes would give one of them each.
    """
    size = z.shape[1] + 1
    at_once = max(1, _NUMBERS_AT_ONCE // (size * task.origin[0].numel()))
    rows = torch.arange(len(z), device=z.device)
    parts = [_linearise(task[part], z[part]) for part in torch.split(rows, at_once)]
    names = ("prices", "jacobian", "loss", "slope", "curvature")
    return Linearised(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


@torch.no_grad()
def _linearise(task: Task, z: Tensor) -> Linearised:
    assert task.latent is not None
    count, size = z.shape
    moves = _DELTA * torch.eye(size + 1, size, dtype=z.dtype, device=z.device).roll(1, 0)
    moves[0] = 0.0
    x = task.context((z[:, None] + moves).flatten(0, 1))
    prices = task.prices(x).double().view(count, size + 1, -1)
    x = x.flatten(1).view(count, size + 1, -1)
    jacobian = (prices[:, 1:] - prices[:, :1]).mT / _DELTA
    if isinstance(task.proximity, Latent):
        units = torch.from_numpy(task.proximity.of.units(size)).to(z)
        weight = _weight(task.proximity.of, (z - task.latent.codes) / units)
        curvature = torch.diag_embed(weight / units**2)
    else:
        units = torch.from_numpy(task.proximity.units(x.shape[2])).to(x)
        change = (x[:, 1:] - x[:, :1]) / (_DELTA * units)
        weight = _weight(task.proximity, (x[:, 0] - task.origin.flatten(1)) / units)
        curvature = (change * weight[:, None]) @ change.mT
    pull = task.pull(z, x[:, 0].view_as(task.origin))
    slope = torch.zeros_like(z)
    if pull.by_context is not None:
        by_context = pull.by_context.flatten(1)
        slope = ((x[:, 1:] - x[:, :1]) @ by_context[..., None]).squeeze(2) / _DELTA
    if pull.by_point is not None:
        slope = slope + pull.by_point
    if task.latent.plausibility is not None:
        curvature = curvature + task.latent.plausibility.curvature(z)
    return Linearised(
        prices=prices[:, 0].cpu().numpy(),
        jacobian=jacobian.cpu().numpy(),
        loss=pull.loss.double().cpu().numpy(),
        slope=slope.double().cpu().numpy(),
        curvature=curvature.double().cpu().numpy(),
    )


def slopes(task: Task, z: Tensor, weights: Tensor) -> Slopes:
    """How some sums of prices change with each code: `(R, n), (R, k, m) -> Slopes`.

    One forward pass, a backward pass for each sum, and one for the loss.
    """
    point = z.detach().clone().requires_grad_()
    with torch.enable_grad():
        x = task.context(point)
        prices = task.prices(x)
    pull = task.pull(z, x.detach())
    count = weights.shape[1]
    found = torch.zeros((len(z), count, z.shape[1]), dtype=torch.float64)
    for k in range(count):
        (slope,) = torch.autograd.grad(prices, point, weights[:, k], retain_graph=True)
        found[:, k] = slope.double().cpu()
    loss = torch.zeros_like(z) if pull.by_point is None else pull.by_point
    if pull.by_context is not None:
        (by_context,) = torch.autograd.grad(x, point, pull.by_context)
        loss = loss + by_context
    passes = 1 + count + int(pull.by_context is not None)
    return Slopes(found.numpy(), loss.double().cpu().numpy(), passes)


def _weight(proximity: Proximity, change: Tensor) -> Tensor:
    """The curvature of a proximity by each entry of a scaled change: `(R, k) -> (R, k)`.

    2 for squares. `|c|` lies below the parabola `c^2 / (2 |c0|) + |c0| / 2` that touches it at c0,
    of curvature `1 / |c0|`; a little is added where it would be steep.
    """
    if not isinstance(proximity, L1):
        return torch.full_like(change, 2.0)
    size = change.abs()
    return 1 / (size + 0.1 * size.mean(1, keepdim=True) + _SMALL)
