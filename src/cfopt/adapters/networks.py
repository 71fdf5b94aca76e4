"""Multi-layer perceptrons of scikit-learn as the torch networks they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
}


def network(model: Any) -> list[nn.Module] | None:
    """The layers of an MLPRegressor, in float64; None if its activations are others.

    Arguments:
        model: the fitted regressor.
    """
    kind = _ACTIVATIONS.get(model.activation)
    if kind is None or model.out_activation_ != "identity":
        return None
    layers: list[nn.Module] = []
    for weight, bias in zip(model.coefs_, model.intercepts_, strict=True):
        layer = nn.Linear(*weight.shape).double().requires_grad_(False)
        layer.weight.copy_(torch.from_numpy(np.asarray(weight, dtype=np.float64).T))
        layer.bias.copy_(torch.from_numpy(np.asarray(bias, dtype=np.float64)))
        layers += [layer, kind()]
    return layers[:-1]
