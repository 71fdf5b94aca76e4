"""Networks of affine modules and ReLU, known by structure, as matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np
import torch
from scipy.linalg import block_diag
from torch import Tensor, nn

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.affine import Affine, is_affine
from cfopt.exact.positive import Positive, unaltered
from cfopt.exact.relu.relaxation import Network
from cfopt.pipeline import Adapted, PerItem


def refusal_of(predictor: object) -> str:
    """Why a predictor is not known to be a ReLU network, or ""."""
    if _modules(predictor) is None:
        return (
            "the predictor is not known to be a ReLU network, a torch Sequential of affine modules "
            "and ReLU"
        )
    return ""


def read_layers(task: Task) -> Network:
    """The layers of a task's network, in float64 on the host; the last gives turned prices."""
    modules = _modules(task.predictor)
    assert modules is not None  # as `refusal_of` has made sure
    modules = [deepcopy(module).to("cpu", torch.float64).eval() for module in modules]
    parts: list[list[nn.Module]] = [[]]
    for module in modules:
        if type(module) is nn.ReLU:
            parts.append([])
        else:
            parts[-1].append(module)
    shape = task.space.origin.shape[1:]
    weights, biases = [], []
    for k, part in enumerate(parts):
        chain = nn.Sequential(*part)
        turn = task.rules.turned if k == len(parts) - 1 else _same
        weight, bias, shape = _probed(chain, turn, shape)
        weights.append(weight)
        biases.append(bias)
    return Network(tuple(weights), tuple(biases))


def side_by_side(networks: Sequence[Network]) -> Network:
    """One network that gives the prices of several, one after the other."""
    depth = max(len(network.biases) for network in networks)
    layers = [_deepened(network, depth) for network in networks]
    weights = [[network.weights[k] for network in layers] for k in range(depth)]
    biases = [np.concatenate([network.biases[k] for network in layers]) for k in range(depth)]
    # They share what goes into the first layer.
    return Network((np.concatenate(weights[0]), *(block_diag(*w) for w in weights[1:])), (*biases,))


def _deepened(network: Network, depth: int) -> Network:
    """The same network with further layers, which hand on what is never below 0."""
    weights, biases = list(network.weights), list(network.biases)
    if depth > 1 and len(biases) == 1:  # `z = max(z, 0) - max(-z, 0)`
        size = weights[0].shape[1]
        weights = [
            np.concatenate([np.eye(size), -np.eye(size)]),
            np.hstack([weights[0], -weights[0]]),
        ]
        biases.insert(0, np.zeros(2 * size))
    while len(biases) < depth:
        size = len(biases[-2])
        weights.insert(-1, np.eye(size))
        biases.insert(-1, np.zeros(size))
    return Network(tuple(weights), tuple(biases))


@torch.no_grad()
def layer_sizes(task: Task) -> list[int]:
    """How many features and neurons a ReLU network has, layer by layer."""
    x = task.space.origin[:1]
    sizes = [x[0].numel()]
    for module in _modules(task.predictor) or []:
        x = module(x)
        if type(module) is nn.ReLU:
            sizes.append(x[0].numel())
    return sizes


def _same(x: Tensor) -> Tensor:
    return x


def _modules(predictor: object) -> list[nn.Module] | None:
    """The modules of a chain in their order; None if there is anything else among them."""
    if isinstance(predictor, PerItem):
        return _of_every_item(predictor)
    if isinstance(predictor, Adapted):
        return _modules(predictor.translation)
    if isinstance(predictor, Positive):
        return _modules(predictor.predictor)
    if not isinstance(predictor, nn.Module) or isinstance(predictor, Affine):
        return None
    if not unaltered(predictor):
        return None
    if type(predictor) is nn.Sequential:
        chain: list[nn.Module] = []
        for module in predictor:
            part = _modules(module)
            if part is None:
                return None
            chain += part
        return chain
    return [predictor] if type(predictor) is nn.ReLU or is_affine(predictor) else None


@torch.no_grad()
def _of_every_item(predictor: PerItem) -> list[nn.Module] | None:
    """A network that is asked for one item after the other, as one for all: `(B, p) -> (B, n)`."""
    own = _modules(predictor.translation)
    # These act on the last axis alone, whatever stands before it.
    if not own or any(type(module) not in (nn.Linear, nn.ReLU) for module in own):
        return None
    count, width = predictor.items.shape
    first = next(module for module in own if isinstance(module, nn.Linear))
    size = first.in_features - width
    if size < 1 or first is not own[0]:
        return None
    x = torch.cat([torch.zeros(1, size), torch.eye(size)]).to(predictor.items)
    rows = predictor.rows(x).reshape(size + 1, -1)
    spread = nn.Linear(size, rows.shape[1]).to(rows).requires_grad_(False)
    spread.weight.copy_((rows[1:] - rows[0]).T)
    spread.bias.copy_(rows[0])
    return [spread, nn.Unflatten(1, (count, first.in_features)), *own, nn.Flatten()]


@torch.no_grad()
def _probed(
    chain: nn.Module, turn: Callable[[Tensor], Tensor], shape: torch.Size
) -> tuple[Array, Array, torch.Size]:
    """An affine chain by unit vectors: weight `(n, k)`, bias `(n,)`, and the shape of it."""
    size = math.prod(shape)
    nothing = turn(chain(torch.zeros((1, *shape), dtype=torch.float64)))
    units = torch.eye(size, dtype=torch.float64).reshape(size, *shape)
    slopes = (turn(chain(units)) - nothing).flatten(1)
    weight: Array = slopes.T.contiguous().numpy()
    return weight, nothing.flatten().numpy(), nothing.shape[1:]
