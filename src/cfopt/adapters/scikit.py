"""Models of scikit-learn that torch can follow: affine ones, networks and sums of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.adapters.forests import predict_of
from cfopt.adapters.kernels import kernel_sum
from cfopt.adapters.linear import Inputs, fold
from cfopt.adapters.networks import network
from cfopt.adapters.structure import (
    CHOSEN,
    columns_of,
    has_affine_inverse,
    is_affine,
    is_affine_step,
    name_of,
)
from cfopt.pipeline import Adapted

_KERNEL_MODELS = frozenset({"KernelRidge", "SVR", "NuSVR", "GaussianProcessRegressor"})


@registry.adapters.register
def scikit(model: Any) -> Adapted | None:
    """A fitted regressor of scikit-learn, or a Pipeline that ends with one, if torch can follow it.

    What is affine is folded into one layer in float64, over numbers and a 0 or 1 for each value of
    a category. Verification asks `model.predict`, with a DataFrame if it was fitted on one.
    """
    if not name_of(model) or not hasattr(model, "n_features_in_"):
        return None
    inputs = inputs_of(model)
    layers = _layers(model, inputs)
    if layers is None:
        return None
    translation = layers[0] if len(layers) == 1 else nn.Sequential(*layers)
    return Adapted(own_predict(model, inputs), translation, type(model).__name__, inputs.columns)


def inputs_of(model: Any) -> Inputs:
    """What a fitted model of scikit-learn reads: DataFrames, or arrays of numbers."""
    named = hasattr(model, "feature_names_in_")
    columns = columns_of(model)
    return Inputs(model.n_features_in_, columns, named or columns is None)


def own_predict(model: Any, inputs: Inputs) -> Callable[[Any], Any]:
    """The model's prediction, of DataFrames if it has columns and otherwise of arrays."""
    predict = predict_of(model)
    return predict if inputs.named else lambda frame: predict(frame.to_numpy(dtype=object))


class SideBySide(nn.Module):
    """The costs of several predictors, one after the other: `(B, p) -> (B, n)`."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """The costs of all parts."""
        return torch.cat([part(x) for part in self.parts], dim=1)


def _layers(model: Any, inputs: Inputs) -> list[nn.Module] | None:
    """A regressor as layers, one after the other; None if some part of it cannot be followed."""
    name = name_of(model)
    if is_affine(model, inputs.width):
        return _listed(fold(model.predict, inputs))
    if name in CHOSEN:
        return _layers(getattr(model, CHOSEN[name]), inputs)
    if name == "Pipeline":
        return _behind_steps(model, inputs)
    if name == "TransformedTargetRegressor" and has_affine_inverse(model.transformer_):
        return _with_target(model, inputs)
    if name == "MultiOutputRegressor":
        parts = [_layers(one, inputs) for one in model.estimators_]
        known = [nn.Sequential(*part) for part in parts if part is not None]
        return [SideBySide(list(known))] if len(known) == len(parts) else None
    if inputs.columns is not None and inputs.columns.categories:
        return None
    if name == "MLPRegressor":
        return network(model)
    return _listed(kernel_sum(model)) if name in _KERNEL_MODELS else None


def _behind_steps(model: Any, inputs: Inputs) -> list[nn.Module] | None:
    """A Pipeline whose steps are affine, and its regressor."""
    steps, last = model[:-1], model.steps[-1][1]
    if not len(steps) or not is_affine_step(steps, inputs.width):
        return None if len(steps) else _layers(last, inputs)
    before = fold(steps.transform, inputs)
    if before is None:
        return None
    after = _layers(last, Inputs(before.out_features))
    return None if after is None else [before, *after]


def _with_target(model: Any, inputs: Inputs) -> list[nn.Module] | None:
    """A regressor of targets that were scaled."""
    before = _layers(model.regressor_, inputs)
    if before is None:
        return None
    size = getattr(model.transformer_, "n_features_in_", None)
    after = None if size is None else fold(model.transformer_.inverse_transform, Inputs(size))
    if after is None:  # nothing was done to them
        return before if name_of(model.transformer_) == "FunctionTransformer" else None
    return [*before, after]


def _listed(layer: nn.Module | None) -> list[nn.Module] | None:
    return None if layer is None else [layer]
