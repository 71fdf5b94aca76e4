"""A HiGHS instance that solves one linear model again and again, for other costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.errors import InputError, SolverError
from cfopt.problems.linear_model import LinearModel
from cfopt.problems.sense import Sense

_STATUS = highspy.HighsModelStatus
_REASONS = {
    _STATUS.kInfeasible: "the model is infeasible",
    _STATUS.kUnbounded: "the model is unbounded for these costs",
    _STATUS.kUnboundedOrInfeasible: "the model is infeasible or unbounded",
    _STATUS.kTimeLimit: "the time ran out before an optimum was proved",
}
#: A dual value below this counts as zero: the optimum may then not be the only one.
_DUAL_TOLERANCE = 1e-9
#: How exactly HiGHS is to meet constraints, integrality and (for costs of size 1) optimality.
SOLVER_TOLERANCE = 1e-9
#: Costs smaller than this fraction of the largest are decided on their own, for HiGHS's tolerances
#: are absolute; below the other they are rounding.
_TINY, _ROUNDING = 1e-6, 1e-12
#: Simplex values this close to an integer are that integer.
_SNAP = 1e-9


class HighsModel:
    """A HiGHS instance that keeps its model; only costs change between solves.

    The answer depends on the costs alone, not on earlier solves, except for the last digits of
    values that are not whole: LPs restart from the last basis, but an optimum that may not be the
    only one is taken from a cold start, and mixed-integer models always start cold. Where the LP
    without integrality happens to have an integer optimum, as in most network models, that is the
    answer.
    """

    def __init__(
        self,
        model: LinearModel,
        sense: Sense,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> None:
        self._integer = model.integer
        self._lower, self._upper = model.lower, model.upper
        #: What no solution can be better than, for the last costs; of mixed-integer models.
        self.bound = np.nan
        self._rows = len(model.row_lower)
        self._highs = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("mip_rel_gap", gap)
        self._highs.setOptionValue("mip_abs_gap", 0.0)
        # By default a solution may break a constraint, and an integer be missed, by 1e-6.
        for kind in ("mip", "primal", "dual"):
            self._highs.setOptionValue(f"{kind}_feasibility_tolerance", SOLVER_TOLERANCE)
        # The same feasible set is searched again and again, so that looking for any feasible point
        # first is wasted, and on small MIPs takes most of the time.
        self._highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
        self._time_limit = time_limit
        self._relaxed: HighsModel | None = None
        if model.integer.any():
            relaxed = replace(model, integer=np.zeros_like(model.integer))
            self._relaxed = HighsModel(relaxed, sense, time_limit=time_limit)
        if self._highs.passModel(_to_highs(model, sense)) == highspy.HighsStatus.kError:
            raise InputError("HiGHS rejects the model: check that lower <= upper everywhere.")

    def infeasibility(self) -> str:
        """Why the model has no solution, whatever the costs, or ""."""
        try:
            self.solve(np.empty(0, dtype=np.int32), np.empty(0))
        except SolverError as error:
            return str(error)
        return ""

    def solve(self, columns: NDArray[np.int32], costs: Array) -> Array:
        """The optimal values of all columns for the given costs of some of them.

        Costs that are tiny beside others drown in HiGHS's tolerances: columns with larger ones keep
        their values while the tiny ones decide among what is left. Below rounding they are 0.
        """
        values = self._solve(columns, costs)
        least, bound = _ROUNDING * float(np.abs(costs).max(initial=0.0)), self.bound
        held = np.zeros(len(columns), dtype=bool)
        try:
            while True:
                sizes = np.where(held, 0.0, np.abs(costs))
                large = sizes >= _TINY * sizes.max(initial=0.0)
                if not (~held & ~large & (sizes > least)).any():
                    return values
                held |= large & (sizes > 0)
                self._bound(columns[held], values[columns[held]], values[columns[held]])
                try:
                    values = self._solve(columns, np.where(held, 0.0, costs))
                except SolverError:
                    return values
        finally:
            self.bound = bound
            if held.any():
                self._bound(columns[held], self._lower[columns[held]], self._upper[columns[held]])

    def _bound(self, columns: NDArray[np.int32], lower: Array, upper: Array) -> None:
        """Give columns other bounds."""
        self._highs.changeColsBounds(len(columns), columns, lower, upper)
        if self._relaxed is not None:
            self._relaxed._bound(columns, lower, upper)

    def _solve(self, columns: NDArray[np.int32], costs: Array) -> Array:
        if self._relaxed is not None:
            try:
                values = self._relaxed._solve(columns, costs)
            except SolverError:
                pass  # the mixed-integer model gives the reason
            else:
                if (values == values.round())[self._integer].all():
                    self.bound = float(costs @ values[columns])
                    return values
        highs = self._highs
        # HiGHS's tolerances are absolute: tiny costs would all count as optimal. A power of two
        # changes no digit of the costs.
        largest = float(np.abs(costs).max(initial=0.0))
        scale = 2.0 ** -np.frexp(largest)[1] if largest > 0 else 1.0
        highs.changeColsCost(len(columns), columns, costs * scale)
        if self._integer.any():
            highs.clearSolver()
        self._run()
        solution = highs.getSolution()
        if not self._integer.any() and not self._is_unique(solution):
            highs.clearSolver()
            self._run()
            solution = highs.getSolution()
        values = np.array(solution.col_value)
        nearest = values.round()
        snap = self._integer | (np.abs(values - nearest) <= _SNAP)
        self.bound = float(highs.getInfo().mip_dual_bound) / scale
        return np.where(snap, nearest, values) + 0.0  # + 0.0 turns -0.0 into 0.0

    def ray(self, columns: NDArray[np.int32], costs: Array) -> Array | None:
        """A direction of size 1 in which the objective improves without end, if there is one."""
        try:
            self.solve(columns, costs)
        except SolverError:
            return self._ray
        return None

    def _run(self) -> None:
        highs = self._highs
        self._ray: Array | None = None
        if self._time_limit is not None:
            # HiGHS counts its time from the first solve of the instance.
            highs.setOptionValue("time_limit", highs.getRunTime() + self._time_limit)
        highs.run()
        status = highs.getModelStatus()
        if status == _STATUS.kUnboundedOrInfeasible:
            # Presolve cannot distinguish the two; the simplex can.
            highs.setOptionValue("presolve", "off")
            highs.run()
            highs.setOptionValue("presolve", "choose")
            status = highs.getModelStatus()
        if status != _STATUS.kOptimal:
            if status == _STATUS.kUnbounded:
                _, known, ray = highs.getPrimalRay()
                size = np.abs(ray).max(initial=0.0) if known else 0.0
                self._ray = np.asarray(ray) / size if size > 0 else None
            reason = _REASONS.get(status, f"HiGHS ended with {highs.modelStatusToString(status)}")
            highs.clearSolver()
            raise SolverError(reason)

    def _is_unique(self, solution: Any) -> bool:
        """Whether no non-basic column or row has a zero dual (there are as many basic as rows)."""
        duals = np.concatenate([solution.col_dual, solution.row_dual])
        return int((np.abs(duals) <= _DUAL_TOLERANCE).sum()) <= self._rows


def _to_highs(model: LinearModel, sense: Sense) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.matrix.shape
    lp.sense_ = highspy.ObjSense.kMaximize if sense is Sense.MAX else highspy.ObjSense.kMinimize
    lp.col_cost_ = np.zeros(lp.num_col_)
    lp.col_lower_, lp.col_upper_ = model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = model.matrix.indptr
    lp.a_matrix_.index_ = model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(flag)] for flag in model.integer]
    return lp
