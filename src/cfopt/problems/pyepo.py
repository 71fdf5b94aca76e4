"""Any PyEPO optimisation model as a problem."""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError, SolverError
from cfopt.problems.base import Problem
from cfopt.problems.or_tools import CpSat, OrTools
from cfopt.problems.oracle import Returned, try_binary
from cfopt.problems.partial_costs import PartialCosts
from cfopt.problems.sense import Sense
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.problems.solvers import Gurobi, Solver, Unbounded

#: A shortfall below this fraction of the terms that are added up is their rounding.
_ROUNDING = 1e-12
#: The solver behind a PyEPO model, by the base class that the model has in PyEPO.
_SOLVERS: dict[str, type[Solver]] = {
    "optGrbModel": Gurobi,
    "optOrtModel": OrTools,
    "optOrtCpModel": CpSat,
    "optOmoModel": Unbounded,
    "optCoptModel": Unbounded,
    "optMpaxModel": Unbounded,
}


class PyEPOProblem(Problem):
    """A PyEPO `optModel`, of any back end; only some of its costs may be predicted.

    Where PyEPO's model predicts the costs of some variables only, a decision has all variables, as
    PyEPO's own solutions do.

    Decisions are those of the model as it is. Claims about them are judged by `exact()`, which
    scales costs, asks the solver for a gap of 0, and reads its bound: with Gurobi, OR-Tools and
    CP-SAT (of OR-Tools' mixed-integer solvers with SCIP only). Answers of other solvers count as
    good to a fraction of 1e-4 of their value, the gap at which most stop, and those of a model with
    an algorithm of its own as optimal, unless `tolerance` says otherwise.

    Alternatives are put to the model itself, on Gurobi, OR-Tools and CP-SAT. Other back ends know
    decisions that they have returned, and try binary ones as `Oracle` does.

    Arguments:
        optmodel: the model: anything with PyEPO's `modelSense`, `num_cost`, `setObj` and `solve`.
            Its objective is overwritten at each solve.
        binary: whether every decision is 0 or 1 in every column; margins depend on it.
        tolerance: the fraction of its value by which an answer may fall short of the best where the
            solver's bound cannot be read; 0 for a solver that proves its optima.
    """

    rowwise = True
    _exact: Self | None = None

    def __init__(
        self, optmodel: Any, binary: bool = False, *, tolerance: float | None = None
    ) -> None:
        for name in ("modelSense", "num_cost", "setObj", "solve"):
            if not hasattr(optmodel, name):
                raise InputError(
                    f"A problem needs to be a cfopt Problem or a PyEPO optModel; "
                    f"{type(optmodel).__name__} has no {name}."
                )
        if tolerance is not None and not 0 <= tolerance < 1:
            raise InputError(f"PyEPOProblem needs 0 <= tolerance < 1, got {tolerance!r}.")
        self.optmodel = optmodel
        self.binary = binary
        self._solver = _solver_of(optmodel)
        self._proves = False
        self._returned = Returned()
        self.tolerance = self._solver.tolerance if tolerance is None else float(tolerance)
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
    def num_columns(self) -> int:
        """All variables of the model where only some costs are predicted."""
        return self.num_costs if self._partial is None else len(self._partial.fixed)

    def prices(self, costs: Tensor) -> Tensor:
        """PyEPO's full costs: the predicted ones added to what is fixed."""
        return costs if self._partial is None else self._partial(costs)

    @property
    def prices_are_costs(self) -> bool:
        return self._partial is None

    def exact(self) -> Self:
        if self._proves or self._solver.size is None:
            return self
        if self._exact is None:
            self._exact = copy(self)
            self._exact._proves = True
        return self._exact

    def optimise(self, prices: Array) -> Array:
        return self.optimise_within(prices)[0]

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        """One solve a row, with the bound that the solver has proved."""
        solved = [self._solve(row) for row in prices]
        return np.stack([one for one, _ in solved]), np.array([missed for _, missed in solved])

    def remember(self, decisions: Array) -> None:
        """A decision that the model has returned is feasible by definition."""
        self._returned.add(decisions)

    def renew(self) -> None:
        self._returned, self._exact = Returned(), None

    def faults(self, decisions: Array) -> list[str]:
        """By asking the model, where its solver can be asked; by trying it where it is binary."""
        known = self._returned.knows(decisions)
        faults = [""] * len(decisions)
        asked = np.flatnonzero(~known)
        if not len(asked):
            return faults
        for row, admitted in zip(asked, self._solver.admits(decisions[asked]), strict=True):
            if admitted is None:
                faults[row] = try_binary(self, decisions[row])
            elif not admitted:
                faults[row] = "breaks the constraints of the PyEPO model"
        return faults

    def _solve(self, prices: Array) -> tuple[Array, float]:
        """The decision for one row of prices, and by how much it may fall short, `(m,)`."""
        model, solver = self.optmodel, self._solver
        scale = self._scale(prices)
        scaled = prices * scale
        # As a tensor: PyEPO keeps the precision of tensors and cuts arrays down to float32.
        costs = torch.from_numpy(scaled)
        try:
            with solver.proving() if self._proves else nullcontext():
                if self._partial is None:
                    model.setObj(costs)
                else:
                    model._setFullObj(costs)
                solution = np.array(model.solve()[0], dtype=np.float64)
                decision = self._snapped(solver.values(solution))
                if decision.shape != prices.shape or not np.isfinite(decision).all():
                    raise ValueError(f"it returned no decision of length {len(prices)}")
                bound = solver.bound(scaled, decision)
        except Exception as error:
            raise SolverError(f"PyEPO's solver raised {type(error).__name__}: {error}") from error
        value = float(prices @ decision)
        missed = self.tolerance * abs(value)
        if bound is not None:
            missed = max(0.0, self.sense.sign * (value - bound / scale))
        if not self._proves:
            missed += solver.blur * (len(decision) + float(np.abs(decision).sum()))
        # Rounding alone is not a shortfall.
        rounding = _ROUNDING * float(np.abs(prices * decision).sum())
        return decision, missed if missed > rounding else 0.0

    def _scale(self, prices: Array) -> float:
        """A power of two, which changes no digit: solvers' tolerances are absolute."""
        largest, size = float(np.abs(prices).max(initial=0.0)), self._solver.size
        if not self._proves or size is None or largest == 0:
            return 1.0
        return float(size * 2.0 ** -np.frexp(largest)[1])

    def _snapped(self, solution: Array) -> Array:
        """Whole numbers where they are meant: solvers meet them up to a tolerance only."""
        nearest = solution.round()
        whole = self._solver.integer()
        if whole is None or whole.shape != solution.shape:
            near = np.abs(solution - nearest) <= FEASIBILITY_TOLERANCE
            # A continuous decision is left as it is: moved, it could break a constraint.
            whole = np.full(solution.shape, bool(near.all()))
        return np.where(whole, nearest, solution) + 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Solver handles cannot be pickled: PyEPO's own recipe travels, and the model is rebuilt.
        model = self.optmodel
        if getattr(model, "_extra_constrs", None):
            raise InputError(
                "A PyEPO model with added constraints cannot be pickled; build it whole."
            )
        return self.__dict__ | {"optmodel": model.to_spec(), "_solver": None, "_exact": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        model = state["optmodel"].build()
        self.__dict__ = state | {"optmodel": model, "_solver": _solver_of(model)}


def _solver_of(model: Any) -> Solver:
    """The solver behind a PyEPO model, by the base class that it has in PyEPO."""
    # By name: importing PyEPO's back ends would import every solver that is installed.
    names = [base.__name__ for base in type(model).__mro__ if base.__module__.startswith("pyepo.")]
    return next((_SOLVERS[name] for name in names if name in _SOLVERS), Solver)(model)
