"""Small dense linear and quadratic programs by HiGHS, each from scratch."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from cfopt._typing import Array

_TOLERANCE = 1e-9
#: Seconds and iterations after which a small program is given up: HiGHS's QP solver may cycle.
_PATIENCE, _ITERATIONS = 2.0, 10_000


@dataclass(frozen=True)
class Optimum:
    """A solution, and the multipliers of the rows: > 0 at an upper limit, < 0 at a lower one."""

    values: Array
    multipliers: Array


def solve_program(
    costs: Array,
    matrix: Array,
    row_lower: Array,
    row_upper: Array,
    lower: Array,
    upper: Array,
    curvature: Array | None = None,
) -> Optimum | None:
    """`min <costs, v>`, plus `1/2 sum_j curvature_j v_j^2` if given, within row and column limits.

    None if there is no optimum, or HiGHS does not find it.
    """
    rows, columns = matrix.shape
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = costs, lower, upper
    lp.row_lower_, lp.row_upper_ = row_lower, row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    filled = matrix != 0
    lp.a_matrix_.start_ = np.append(0, filled.sum(axis=1).cumsum())
    lp.a_matrix_.index_ = np.nonzero(filled)[1]
    lp.a_matrix_.value_ = matrix[filled]
    if curvature is not None:
        model.hessian_.dim_ = columns
        model.hessian_.format_ = highspy.HessianFormat.kTriangular
        model.hessian_.start_ = np.arange(columns + 1)
        model.hessian_.index_ = np.arange(columns)
        model.hessian_.value_ = curvature
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("presolve", "off")  # the models are small, and duals are wanted
    for kind in ("primal", "dual"):
        highs.setOptionValue(f"{kind}_feasibility_tolerance", _TOLERANCE)
    highs.setOptionValue("time_limit", _PATIENCE)
    highs.setOptionValue("qp_iteration_limit", _ITERATIONS)
    if highs.passModel(model) == highspy.HighsStatus.kError:
        return None
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    return Optimum(np.array(solution.col_value), -np.array(solution.row_dual))
