"""Derivatives of a latent task by codes: of prices to first order, of the loss to second."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.search.trust_region.evaluator import host

#: By how much an entry of a code is moved to see what it does; codes have about unit size.
_DELTA = 1e-2
#: How many numbers of decoded contexts are held at once.
_NUMBERS_AT_ONCE = 12_000_000
#: How many codes are decoded at once.
_DECODED_AT_ONCE = 16


class Linearised(NamedTuple):
    """What moving a code by p does, for R codes.

        prices(p) = prices + jacobian p
        loss(p)   = loss + slope p + 1/2 p' curvature p

    Arguments:
        prices: turned, `(R, m)`.
        jacobian: `(R, m, n)`.
        loss: `(R,)`.
        slope: `(R, n)`.
        curvature: the curvature of Gauss and Newton, positive semidefinite, without that of the
            plausibility, `(R, n, n)`.
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
    at_once = max(1, _NUMBERS_AT_ONCE // (size * task.space.origin[0].numel()))
    rows = torch.arange(len(z), device=z.device)
    parts = [_linearise(task[part], z[part]) for part in torch.split(rows, at_once)]
    return Linearised(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


@torch.no_grad()
def _linearise(task: Task, z: Tensor) -> Linearised:
    assert task.space.latent is not None
    count, size = z.shape
    moves = _DELTA * torch.eye(size + 1, size, dtype=z.dtype, device=z.device).roll(1, 0)
    moves[0] = 0.0
    rows = task.row_numbers.repeat_interleave(size + 1)
    points, latent = (z[:, None] + moves).flatten(0, 1), task.space.latent
    decoded, found = [], []
    # A few at a time: what is decoded on the way then stays in the processor's cache.
    for some in torch.split(torch.arange(len(rows), device=z.device), _DECODED_AT_ONCE):
        decoded.append(latent[rows[some]].decode(points[some]))
        found.append(task.prices(decoded[-1]))
    x, prices = torch.cat(decoded), torch.cat(found).double().view(count, size + 1, -1)
    x = x.flatten(1).view(count, size + 1, -1)
    here, by_entry = x[:, 0].view_as(task.space.origin), (x[:, 1:] - x[:, :1]) / _DELTA
    proximity = task.space.proximity.measure
    if task.space.proximity.between_codes:
        weight = proximity.curvature(z, task.space.latent.codes)
        curvature = torch.diag_embed(weight)
    else:
        weight = proximity.curvature(x[:, 0].view_as(task.space.origin), task.space.origin).flatten(
            1
        )
        curvature = (by_entry * weight[:, None]) @ by_entry.mT
    pull = task.space.pull(z, here)
    slope = torch.zeros_like(z)
    if pull.by_context is not None:
        slope = (by_entry @ pull.by_context.flatten(1)[..., None]).squeeze(2)
    if pull.by_point is not None:
        slope = slope + pull.by_point
    return Linearised(
        prices=host(prices[:, 0]),
        jacobian=host((prices[:, 1:] - prices[:, :1]).mT / _DELTA),
        loss=host(pull.loss),
        slope=host(slope),
        curvature=host(curvature),
    )


def slopes(task: Task, z: Tensor, weights: Tensor) -> tuple[Array, Array, int]:
    """The slopes of weighted sums of prices, and of the loss: `(R, k, m) -> (R, k, n), (R, n)`.

    One forward pass, a backward pass for each sum, and one for the loss; beside the slopes, the
    number of passes that each code took.
    """
    point = z.detach().clone().requires_grad_()
    with torch.enable_grad():
        x, more = task.space.shown(point)
        prices = task.prices(x)
    pull = task.space.pull(z, x.detach(), more)
    count = weights.shape[1]
    found = np.zeros((len(z), count, z.shape[1]))
    for k in range(count):
        (slope,) = torch.autograd.grad(prices, point, weights[:, k], retain_graph=True)
        found[:, k] = host(slope)
    loss = torch.zeros_like(z) if pull.by_point is None else pull.by_point
    outputs, seeds = [], []
    if pull.by_context is not None:
        outputs, seeds = [x], [pull.by_context]
    if more is not None:
        outputs, seeds = [*outputs, more], [*seeds, torch.ones_like(more)]
    if outputs:
        (by_point,) = torch.autograd.grad(outputs, point, seeds)
        loss = loss + by_point
    return found, host(loss), 1 + count + int(bool(outputs))
