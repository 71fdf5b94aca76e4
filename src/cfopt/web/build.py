"""How the shipped pipelines on tables were made: `python -m cfopt.web.build` writes their file.

It needs PyEPO, whose generators the data come from; the file does not.
"""

from __future__ import annotations

from typing import cast

import torch
from safetensors.torch import save
from torch import Tensor

from cfopt.datasets import synthetic
from cfopt.problems import Knapsack
from cfopt.storage.files import write_whole
from cfopt.web.served import FILE, REACH

#: Contexts that are shipped, and those that the predictors were fitted to.
_SHIPPED, _FITTED = 50, 2000


def build() -> dict[str, Tensor]:
    """Contexts, linear predictors by least squares, and the weights of the items.

    Costs of degree 1 are what a linear predictor can learn. They are put on a scale on which none
    is negative within the features' ranges: minutes for a street, worth for an item.
    """
    count = _SHIPPED + _FITTED
    grid = synthetic.grid(count, 10, degree=1, seed=7)
    pack = synthetic.knapsack(count, 8, degree=1, seed=7)
    items = cast(Knapsack, pack.problem)
    tensors = _fitted("grid", grid.contexts, 5 + 5 * grid.costs)
    tensors |= _fitted("knapsack", pack.contexts, 8 + 2 * pack.costs)
    tensors["knapsack.weights"] = torch.as_tensor(items.weights)
    tensors["knapsack.capacities"] = torch.as_tensor(items.capacities)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _fitted(name: str, contexts: Tensor, costs: Tensor) -> dict[str, Tensor]:
    x = torch.cat([contexts, torch.ones(len(contexts), 1)], dim=1).double()
    solution = torch.linalg.lstsq(x[_SHIPPED:], costs[_SHIPPED:].double()).solution
    return {
        f"{name}.weight": solution[:-1].T.round(decimals=3),
        f"{name}.bias": solution[-1].round(decimals=3),
        f"{name}.contexts": x[:_SHIPPED, :-1].clamp(-REACH, REACH).round(decimals=2),
    }


if __name__ == "__main__":
    write_whole(FILE, save(build()))
