"""The baseline: CF-OPT one task at a time, as a careful user would write it with HiGHS.

Plain autograd, one solve a step through a persistent model that is warm-started (LPs) and uses one
thread. It shares no code with cfopt beyond the arrays that describe the problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import scipy.sparse
import torch


class HighsSolver:
    """A HiGHS model whose costs change: `min or max <c, y>`, `rows`, `0 <= y <= 1`."""

    def __init__(self, matrix, row_lower, row_upper, *, integer: bool, maximise: bool) -> None:
        matrix = scipy.sparse.csc_array(matrix)
        rows, self.columns = matrix.shape
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = rows, self.columns
        lp.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
        lp.col_cost_ = np.zeros(self.columns)
        lp.col_lower_, lp.col_upper_ = np.zeros(self.columns), np.ones(self.columns)
        lp.row_lower_, lp.row_upper_ = row_lower, row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
        lp.a_matrix_.value_ = matrix.data
        if integer:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * self.columns
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.passModel(lp)
        self.index = np.arange(self.columns, dtype=np.int32)

    def solve(self, costs: np.ndarray) -> np.ndarray:
        self.highs.changeColsCost(self.columns, self.index, costs)
        self.highs.run()
        return np.array(self.highs.getSolution().col_value).round()


def grid_solver(rows: int, cols: int, arcs: list[tuple[int, int]]) -> HighsSolver:
    """The shortest path as a flow LP."""
    matrix = np.zeros((rows * cols, len(arcs)))
    for k, (source, target) in enumerate(arcs):
        matrix[source, k] -= 1
        matrix[target, k] += 1
    balance = np.zeros(rows * cols)
    balance[0], balance[-1] = -1, 1
    return HighsSolver(matrix, balance, balance, integer=False, maximise=False)


def knapsack_solver(weights: np.ndarray, capacities: np.ndarray) -> HighsSolver:
    """The knapsack as a MIP."""
    lower = np.full(len(capacities), -np.inf)
    return HighsSolver(weights, lower, capacities, integer=True, maximise=True)


@dataclass
class Answer:
    """What one run of the baseline returns."""

    x: torch.Tensor | None
    loss: float
    steps: int


def explain_one(
    predictor,
    solver,
    x0,
    factual,
    alternative,
    kind,
    *,
    maximise,
    step,
    epsilon=1.0,
    max_steps=6000,
    patience=10,
    improvement=0.9,
    damping=1.0,
    count_all=False,
) -> Answer:
    """One task by MDMM in feature space; `kind` is relative, absolute or epsilon."""
    sign = -1.0 if maximise else 1.0
    x, multiplier, idle = x0.clone(), 0.0, 0
    best_x, best, last = None, float("inf"), float("inf")
    steps = 0
    while steps < max_steps:
        steps += 1
        x.requires_grad_()
        costs = sign * predictor(x)
        if kind == "relative":
            h = costs @ (alternative - factual)
        else:
            optimum = torch.from_numpy(solver.solve(sign * costs.detach().numpy()))
            if kind == "absolute":
                h = costs @ (alternative - optimum)
            else:
                value = costs @ optimum
                h = value + epsilon * value.abs() - costs @ factual
        distance = (x - x0).square().sum()
        energy = distance + multiplier * h + damping / 2 * h * h
        (gradient,) = torch.autograd.grad(energy, x)
        violation, loss = h.item(), distance.item()
        found = best_x is not None
        if violation <= 0:
            if loss < best:
                best_x, best = x.detach().clone(), loss
            if loss < improvement * last:
                last, idle = loss, 0
            else:
                idle += 1
        elif count_all and found:
            idle += 1
        if idle >= patience:
            break
        x = x.detach() - step * gradient
        multiplier += step * violation
    return Answer(best_x, best, steps)
