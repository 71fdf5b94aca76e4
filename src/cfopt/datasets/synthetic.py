"""The paper's tabular data, from PyEPO's generators."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cfopt.extras import require
from cfopt.problems import GridShortestPath, Knapsack, Problem


class Synthetic(NamedTuple):
    """A problem with contexts `(N, p)` and true costs `(N, n)`, in torch's default dtype."""

    problem: Problem
    contexts: Tensor
    costs: Tensor


def grid(
    count: int,
    features: int,
    rows: int = 5,
    cols: int = 5,
    *,
    degree: int = 4,
    noise: float = 0.5,
    seed: int = 135,
) -> Synthetic:
    """Shortest paths on a grid: costs are a polynomial of the context, with noise.

    Arguments:
        count, features: N and p.
        rows, cols: the grid.
        degree: the degree of the polynomial.
        noise: half-width of the uniform factor around 1.
        seed: the seed of PyEPO's generator.
    """
    contexts, costs = _pyepo().shortestpath.genData(
        count, features, (rows, cols), deg=degree, noise_width=noise, seed=seed
    )
    return Synthetic(GridShortestPath(rows, cols), _tensor(contexts), _tensor(costs))


def knapsack(
    count: int,
    features: int,
    items: int = 16,
    *,
    resources: int = 2,
    capacity: float = 20.0,
    degree: int = 6,
    noise: float = 0.5,
    seed: int = 135,
) -> Synthetic:
    """Knapsacks: values are a polynomial of the context, with noise, rounded up.

    Arguments:
        count, features, items: N, p and n.
        resources, capacity: the number of constraints, and the limit of each.
        degree, noise, seed: as for `grid`.
    """
    weights, contexts, values = _pyepo().knapsack.genData(
        count, features, items, dim=resources, deg=degree, noise_width=noise, seed=seed
    )
    problem = Knapsack(weights, np.full(resources, capacity))
    return Synthetic(problem, _tensor(contexts), _tensor(values))


def _tensor(array: Any) -> Tensor:
    return torch.as_tensor(array, dtype=torch.get_default_dtype())


def _pyepo() -> Any:
    require("Synthetic data", "pyepo", "pyepo")
    import pyepo.data

    return pyepo.data
