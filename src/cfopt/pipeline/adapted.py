"""Models of other libraries as predictors: a translation to search, the model to verify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt._guard import Guard, guarded
from cfopt.errors import InputError
from cfopt.pipeline.columns import Columns
from cfopt.pipeline.function import Function

#: A predictor as searches call it, `(B, ...) -> (B, n)`.
Predictor = Callable[[Tensor], Tensor]


class Adapted(nn.Module):
    """A model of another library as a predictor.

    Searches work on a translation of it, verification asks the model itself: a translation that
    is wrong by a little may cost an answer, but never makes a false one. The model may keep a
    state: one thread at a time asks it.

    Arguments:
        original: the model's own prediction, on arrays, `(B, p) -> (B, n)` or `(B,)`, or on
            DataFrames, if there are columns.
        translation: the same function in torch, which may have a gradient.
        name: what the model is called.
        columns: the columns of a DataFrame that the model reads, if it does.
    """

    #: What contexts are made of where they are not tensors.
    dtype = torch.float64

    def __init__(
        self,
        original: Callable[[Any], Any],
        translation: nn.Module,
        name: str,
        columns: Columns | None = None,
    ) -> None:
        super().__init__()
        self.original, self.translation = original, translation
        self.name, self.columns = name, columns
        self.guard = Guard()

    def forward(self, x: Tensor) -> Tensor:
        """The costs by the translation: `(B, p) -> (B, n)`."""
        costs: Tensor = self.translation(x)
        return costs

    @guarded
    @torch.no_grad()
    def deployed(self, x: Tensor) -> Tensor:
        """The costs as the model itself predicts them: `(B, p) -> (B, n)`."""
        given: Any = x.double().cpu().numpy()
        given = given if self.columns is None else self.columns.decode(given)
        found = np.asarray(self.original(given), dtype=np.float64)
        return torch.from_numpy(found.reshape(len(x), -1).copy()).to(x.device)


class Deployed(nn.Module):
    """An adapted model as it predicts itself, in the place of its translation.

    Arguments:
        adapted: the model.
    """

    def __init__(self, adapted: Adapted) -> None:
        super().__init__()
        self.adapted = adapted

    def forward(self, x: Tensor) -> Tensor:
        """The model's own costs: `(B, p) -> (B, n)`."""
        return self.adapted.deployed(x)


def as_predictor(model: Any) -> Predictor:
    """A module as it is; a model of another library adapted; a function on tensors or arrays.

    Adapters are functions that return a predictor for the models they know and None for others;
    they are entered with `registry.adapters.register`, or as entry points.
    """
    if isinstance(model, nn.Module):
        return model
    for name in registry.adapters.names():
        adapted: Predictor | None = registry.adapters.find(name)(model)
        if adapted is not None:
            return adapted
    if callable(model):
        return Function(model)
    if callable(getattr(model, "predict", None)):
        return Function(model.predict)
    raise InputError(
        "Pipeline needs a predictor: a torch module, a fitted model with a predict method, or a "
        f"function of contexts; got {type(model).__name__}."
    )
