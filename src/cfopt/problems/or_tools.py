"""PyEPO models on Google's OR-Tools: its linear solvers, and CP-SAT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.problems.solvers import USUAL_GAP, Solver, room


class OrTools(Solver):
    """Models on OR-Tools' linear solvers, such as SCIP or GLOP."""

    tolerance = USUAL_GAP
    size = 1.0
    blur = 1e-5  # CP-SAT within OR-Tools ignores costs below it

    @contextmanager
    def proving(self) -> Iterator[None]:
        """A gap of 0, which takes a parameter of each call: they stop at 1e-4 otherwise."""
        solver = self.model._model
        self.model._model = _WithoutGap(solver)
        try:
            yield
        finally:
            self.model._model = solver

    def bound(self, prices: Array, decision: Array) -> float | None:
        """SCIP's own; of linear programs that of their dual solution.

        What HiGHS, CBC and CP-SAT report here is not a bound: within OR-Tools they returned worse
        decisions than they had proved (by up to 1e-4 of the value).
        """
        solver = self.model._model
        objective = solver.Objective()
        if solver.IsMip():
            trusted = solver.SolverVersion().startswith("SCIP")
            return float(objective.BestBound() - objective.offset()) if trusted else None
        highest = objective.maximization()
        total = 0.0
        for price, limited in [
            *((row.dual_value(), row) for row in solver.constraints()),
            *((column.reduced_cost(), column) for column in solver.variables()),
        ]:
            if price:
                total += price * float(limited.Ub() if (price > 0) == highest else limited.Lb())
        return total if np.isfinite(total) else None

    def values(self, solution: Array) -> Array:
        """PyEPO cuts them down to float32."""
        values = np.array([column.solution_value() for column in self.model._vars_list])
        same = values.shape == solution.shape and np.allclose(values, solution, rtol=1e-6)
        return values if same else solution

    def integer(self) -> NDArray[np.bool_]:
        return np.array([column.integer() for column in self.model._vars_list])

    def admits(self, decisions: Array) -> list[bool | None]:
        """By a copy of the model whose variables have no room but for the decision."""
        return [self._admits(decision) for decision in decisions]

    def _admits(self, decision: Array) -> bool | None:
        # A copy for each: SCIP takes a variable for binary once its bounds have been 0 and 1.
        model = self.model.copy()
        columns, solver = model._vars_list, model._model
        solver.Objective().Clear()
        lower, upper = ([getattr(column, end)() for column in columns] for end in ("Lb", "Ub"))
        least, most = room(decision, lower, upper)
        if (least > most).any():
            return False
        for column, low, high in zip(columns, least.tolist(), most.tolist(), strict=True):
            column.SetBounds(low, high)
        known = {solver.OPTIMAL: True, solver.FEASIBLE: True, solver.INFEASIBLE: False}
        return known.get(solver.Solve())


class CpSat(Solver):
    """Models on CP-SAT, whose costs PyEPO multiplies by a scale and rounds to whole numbers."""

    # Then the rounded costs have 40 bits, and their sums still fit 64.
    size = 2.0**20

    def bound(self, prices: Array, decision: Array) -> float | None:
        """What the decision, best for the rounded costs, can lose by their rounding.

        With e the costs less the rounded ones, for every y within the variables' limits

            <c, decision - y> <= <e, decision - y> <= sum_j max over y_j of e_j (decision_j - y_j)
        """
        if not type(self.model).solve.__module__.startswith("pyepo."):
            return None  # PyEPO's own solve has no limits, so that its answers are optimal
        scale = self.model._OBJ_SCALE
        fraction = prices - np.round(prices * scale) / scale
        lower, upper = self._limits()
        missed = np.stack([fraction * (decision - lower), fraction * (decision - upper)])
        largest = self.model.modelSense != 1
        off = (-missed if largest else missed).max(axis=0).sum()
        return float(prices @ decision + (off if largest else -off))

    def integer(self) -> NDArray[np.bool_]:
        return np.ones(len(self.model._vars_list), dtype=np.bool_)

    def admits(self, decisions: Array) -> list[bool | None]:
        from ortools.sat.python import cp_model

        known = {cp_model.OPTIMAL: True, cp_model.FEASIBLE: True, cp_model.INFEASIBLE: False}
        indices = [column.Index() for column in self.model._vars_list]
        answers: list[bool | None] = []
        for decision in decisions:
            if (np.abs(decision - decision.round()) > FEASIBILITY_TOLERANCE).any():
                answers.append(False)
                continue
            model = self.model._model.Clone()
            model.ClearObjective()
            for index, value in zip(indices, decision.round(), strict=True):
                model.Add(model.GetIntVarFromProtoIndex(index) == int(value))
            answers.append(known.get(cp_model.CpSolver().Solve(model)))
        return answers

    def _limits(self) -> tuple[Array, Array]:
        domains = [column.domain for column in self.model._vars_list]
        lower, upper = ([float(getattr(d, end)()) for d in domains] for end in ("min", "max"))
        return np.array(lower), np.array(upper)


class _WithoutGap:
    """An OR-Tools solver whose calls ask for a gap of 0; the rest is its own."""

    def __init__(self, solver: Any) -> None:
        self._solver = solver

    def Solve(self) -> Any:  # noqa: N802 (the name is that of OR-Tools)
        from ortools.linear_solver import pywraplp

        parameters = pywraplp.MPSolverParameters()
        parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, 0.0)
        return self._solver.Solve(parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)
