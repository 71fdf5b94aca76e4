"""Any function of a batch of contexts as a predictor, on tensors or on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cfopt._guard import Guard, guarded
from cfopt.errors import InputError
from cfopt.pipeline.columns import Columns


class Function(nn.Module):
    """A function as a predictor: no gradient is needed, and none of torch.

    Whether it takes tensors or arrays is found out with the first batch. A function on tensors may
    have a gradient, which searches then use. One thread at a time calls it.

    Arguments:
        function: `(B, ...) -> (B, n)`, on tensors, on arrays of float64, or on DataFrames, if
            there are columns.
        columns: the columns of the DataFrames that it reads.
        like: a DataFrame that has these columns, such as the training data.
        unread: why it is served as a function although models of its kind are read, if it is one.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        columns: Columns | None = None,
        like: pd.DataFrame | None = None,
        unread: str = "",
    ) -> None:
        super().__init__()
        self.unread = unread
        self.columns = Columns.of(like) if columns is None and like is not None else columns
        if not callable(function):
            raise InputError(f"Function needs a function, got {type(function).__name__}.")
        self.function = function
        self._on_arrays = None if self.columns is None else True
        self.guard = Guard()

    @guarded
    def forward(self, x: Tensor) -> Tensor:
        """The costs, `(B, ...) -> (B, n)`; a function that gives a single cost may give `(B,)`."""
        given: Any = x.detach().double().cpu().numpy() if self.on_arrays(x) else x
        if self.columns is not None:
            given = self.columns.decode(given)
        costs = self.function(given)
        if not isinstance(costs, Tensor):
            costs = torch.tensor(np.asarray(costs, dtype=np.float64), device=x.device)
        return costs[:, None] if costs.shape == (len(x),) else costs

    def on_arrays(self, x: Tensor) -> bool:
        """Whether the function takes arrays, found out with some contexts."""
        if self._on_arrays is None:
            self._on_arrays = self._takes_arrays(x)
        return self._on_arrays

    def _takes_arrays(self, x: Tensor) -> bool:
        # With a gradient: NumPy accepts tensors without one here and there.
        probe = x.detach().clone().requires_grad_()
        refused: Exception | None = None
        try:
            with torch.enable_grad():
                if isinstance(self.function(probe), Tensor):
                    return False
        # Any: the function is the caller's.
        except Exception as error:
            refused = error
        try:
            self.function(probe.detach().double().cpu().numpy())
        except Exception:
            if refused is not None:
                raise refused from None
            return False
        return True
