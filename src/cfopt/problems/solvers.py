"""A solver behind a PyEPO model, and what it can be asked beyond PyEPO's own interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.problems.solved import FEASIBILITY_TOLERANCE

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
USUAL_GAP = 1e-4


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
        """A bound that no decision can beat, after a solve; None if it is not known."""
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

    tolerance = USUAL_GAP
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
            least, most = room(decision, lower, upper)
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


def _gurobi_columns(model: Any) -> list[Any] | None:
    """The variable of each decision column; None where they are not one to one."""
    columns = list(getattr(model, "_cost_vars", None) or ())
    if not columns:
        listed = getattr(model, "_vars_list", None)
        columns = list(model.x.tolist() if listed is None else listed)
    partial = getattr(model, "c_pred_index", None) is not None
    return columns if partial or len(columns) == model.num_cost else None


def room(decision: Array, lower: Any, upper: Any) -> tuple[Array, Array]:
    """A variable's bounds, cut down to a decision and what it may be off."""
    slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(decision))
    return np.maximum(lower, decision - slack), np.minimum(upper, decision + slack)
