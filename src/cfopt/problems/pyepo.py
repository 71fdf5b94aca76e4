"""Any PyEPO optimisation model as a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt.errors import InputError, SolverError
from cfopt.problems.base import PartialCosts, Problem
from cfopt.problems.oracle import try_binary
from cfopt.types import Array, Sense

#: Solvers behind PyEPO answer in float32 or to their own tolerance; binaries are meant.
_SNAP = 1e-5


class PyEPOProblem(Problem):
    """A PyEPO `optModel`, of any back end; only some of its costs may be predicted.

    Where PyEPO's model predicts the costs of some variables only, a decision has all variables, as
    PyEPO's own solutions do. Alternatives are tried as `Oracle` does.

    Arguments:
        optmodel: the model: anything with PyEPO's `modelSense`, `num_cost`, `setObj` and `solve`.
            Its objective is overwritten at each solve.
        binary: whether every decision is 0 or 1 in every column; margins need to know.
    """

    rowwise = True

    def __init__(self, optmodel: Any, binary: bool = False) -> None:
        for name in ("modelSense", "num_cost", "setObj", "solve"):
            if not hasattr(optmodel, name):
                raise InputError(
                    f"A problem needs to be a cfopt Problem or a PyEPO optModel; "
                    f"{type(optmodel).__name__} has no {name}."
                )
        self.optmodel = optmodel
        self._binary = binary
        self.num_costs = int(optmodel.num_cost)
        self.sense = Sense.MIN if int(optmodel.modelSense) == 1 else Sense.MAX
        columns = getattr(optmodel, "c_pred_index", None)
        self._partial = None
        if columns is not None:
            if getattr(optmodel.problem, "obj_Q", None) is not None:
                raise InputError(
                    "The PyEPO model's objective is quadratic; cfopt explains linear ones."
                )
            fixed = np.asarray(optmodel.problem.fixed_cost, np.float64)
            self._partial = PartialCosts(np.asarray(columns), fixed)

    @property
    def binary(self) -> bool:
        """What the user says."""
        return self._binary

    @property
    def num_columns(self) -> int:
        """All variables of the model where only some costs are predicted."""
        return self.num_costs if self._partial is None else len(self._partial.fixed)

    def prices(self, costs: Tensor) -> Tensor:
        """PyEPO's full costs: the predicted ones added to what is fixed."""
        return costs if self._partial is None else self._partial(costs)

    def optimise(self, prices: Array) -> Array:
        """One solve a row."""
        return np.stack([self._solve(row) for row in prices])

    def faults(self, decisions: Array) -> list[str]:
        """By trying a binary decision, as `Oracle` does."""
        return try_binary(self, decisions)

    def _solve(self, prices: Array) -> Array:
        # As a tensor: PyEPO keeps the precision of tensors and cuts arrays down to float32.
        costs = torch.from_numpy(prices)
        model = self.optmodel
        try:
            if self._partial is None:
                model.setObj(costs)
            else:
                model._setFullObj(costs)
            solution = np.array(model.solve()[0], dtype=np.float64)
        except Exception as error:
            raise SolverError(f"PyEPO's solver raised {type(error).__name__}: {error}") from error
        if solution.shape != prices.shape or not np.isfinite(solution).all():
            raise SolverError(f"PyEPO's solver returned no decision of length {len(prices)}")
        nearest = solution.round()
        return np.where(np.abs(solution - nearest) <= _SNAP, nearest, solution) + 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Solver handles cannot be pickled: PyEPO's own recipe travels, and the model is rebuilt.
        model = self.optmodel
        if getattr(model, "_extra_constrs", None):
            raise InputError(
                "A PyEPO model with added constraints cannot be pickled; build it whole."
            )
        return self.__dict__ | {"optmodel": model.to_spec()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state | {"optmodel": state["optmodel"].build()}
