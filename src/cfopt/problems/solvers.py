"""The solvers behind PyEPO models: what they can be asked beyond PyEPO's own interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.problems.base import FEASIBILITY_TOLERANCE

#: How exactly Gurobi is asked to solve where an optimum is to be proved.
_GUROBI = {
    "MIPGap": 0.0,
    "MIPGapAbs": 0.0,
    "IntFeasTol": 1e-9,
    "FeasibilityTol": 1e-9,
    "OptimalityTol": 1e-9,
    "BarConvTol": 1e-10,
    "BarQCPConvTol": 1e-10,
}
#: The relative gap at which most solvers stop unless they are asked otherwise.
_USUAL_GAP = 1e-4


class Solver:
    """A model of the user's own making, with an algorithm of which nothing else is known.

    Arguments:
        model: the PyEPO model.
    """

    #: By what fraction of its value an answer may fall short where no bound can be had.
    tolerance = 0.0
    #: What its tolerances, which do not scale with the costs, may hide: so much for each column,
    #: and for each unit of a decision.
    blur = 0.0
    #: The size that the largest cost is scaled to where an optimum is to be proved; None as it is.
    size: float | None = None

    def __init__(self, model: Any) -> None:
        self.model = model

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Asks the solver for a proven optimum, and leaves its settings as they were."""
        yield

    def bound(self, prices: Array, decision: Array) -> float | None:
        """A bound that no decision can beat, after a solve, or None if it is not known.

        Arguments:
            prices: the prices that were solved for, `(m,)`.
            decision: the solver's answer, `(m,)`.
        """
        return None

    def values(self, solution: Array) -> Array:
        """PyEPO's solution, `(m,)`, in the solver's own precision."""
        return solution

    def integer(self) -> NDArray[np.bool_] | None:
        """Which columns are whole numbers, `(m,)`; None if that is not known."""
        return None

    def admits(self, decisions: Array) -> list[bool | None]:
        """Whether each decision is feasible, up to the tolerance; None where it cannot say."""
        return [None] * len(decisions)


class Unbounded(Solver):
    """Pyomo, COPT and MPAX: solvers with a gap of their own, whose bounds are not read."""

    tolerance = _USUAL_GAP
    size = 1.0
    blur = 1e-6


class Gurobi(Solver):
    """Models on Gurobi, linear or quadratic in their constraints."""

    size = 1.0
    blur = 1e-6

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Gaps of 0 and fine tolerances, for the duration of a solve."""
        parameters = self.model._model.Params
        before = {name: getattr(parameters, name) for name in _GUROBI}
        try:
            for name, value in _GUROBI.items():
                setattr(parameters, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(parameters, name, value)

    def bound(self, prices: Array, decision: Array) -> float:
        """Gurobi's own, without the objective's constant term."""
        return float(self.model._model.ObjBound - self.model._model.ObjCon)

    def integer(self) -> NDArray[np.bool_] | None:
        """By the types of the variables."""
        columns = _gurobi_columns(self.model)
        if columns is None:
            return None
        return np.array([column.VType in ("B", "I") for column in columns])

    def admits(self, decisions: Array) -> list[bool | None]:
        """By a copy of the model whose variables have no room but for the decision."""
        if _gurobi_columns(self.model) is None:
            return super().admits(decisions)
        model = self.model.copy()
        columns = _gurobi_columns(model)
        assert columns is not None
        model._model.update()
        model.setObj(np.zeros(model.num_cost))
        lower, upper = ([getattr(column, end) for column in columns] for end in ("LB", "UB"))
        answers: list[bool | None] = []
        for decision in decisions:
            least, most = _room(decision, lower, upper)
            if (least > most).any():
                answers.append(False)
                continue
            model._model.setAttr("LB", columns, least.tolist())
            model._model.setAttr("UB", columns, most.tolist())
            try:
                model.solve()
                answers.append(True)
            except Exception:
                # Infeasible, or infeasible or unbounded (there is no objective); otherwise unknown.
                answers.append(False if model._model.Status in (3, 4) else None)
        return answers


class OrTools(Solver):
    """Models on OR-Tools' linear solvers, such as SCIP or GLOP."""

    tolerance = _USUAL_GAP
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
        for price, part in [
            *((row.dual_value(), row) for row in solver.constraints()),
            *((column.reduced_cost(), column) for column in solver.variables()),
        ]:
            if price:
                total += price * float(part.Ub() if (price > 0) == highest else part.Lb())
        return total if np.isfinite(total) else None

    def values(self, solution: Array) -> Array:
        """PyEPO cuts them down to float32."""
        values = np.array([column.solution_value() for column in self.model._vars_list])
        same = values.shape == solution.shape and np.allclose(values, solution, rtol=1e-6)
        return values if same else solution

    def integer(self) -> NDArray[np.bool_]:
        """By the types of the variables."""
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
        least, most = _room(decision, lower, upper)
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
        """Everything is."""
        return np.ones(len(self.model._vars_list), dtype=np.bool_)

    def admits(self, decisions: Array) -> list[bool | None]:
        """By a copy of the model in which the variables are fixed."""
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


_BY_BASE: dict[str, type[Solver]] = {
    "optGrbModel": Gurobi,
    "optOrtModel": OrTools,
    "optOrtCpModel": CpSat,
    "optOmoModel": Unbounded,
    "optCoptModel": Unbounded,
    "optMpaxModel": Unbounded,
}


def solver_of(model: Any) -> Solver:
    """The solver behind a PyEPO model, by the base class that it has in PyEPO."""
    # By name: importing PyEPO's back ends would import every solver that is installed.
    names = [base.__name__ for base in type(model).__mro__ if base.__module__.startswith("pyepo.")]
    return next((_BY_BASE[name] for name in names if name in _BY_BASE), Solver)(model)


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


def _gurobi_columns(model: Any) -> list[Any] | None:
    """The variable of each decision column; None where they are not one to one."""
    columns = list(getattr(model, "_cost_vars", None) or ())
    if not columns:
        listed = getattr(model, "_vars_list", None)
        columns = list(model.x.tolist() if listed is None else listed)
    partial = getattr(model, "c_pred_index", None) is not None
    return columns if partial or len(columns) == model.num_cost else None


def _room(decision: Array, lower: Any, upper: Any) -> tuple[Array, Array]:
    """A variable's bounds, cut down to a decision and what it may be off."""
    slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(decision))
    return np.maximum(lower, decision - slack), np.minimum(upper, decision + slack)
