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

from cfopt.problems import GridShortestPath, Knapsack, Problem


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
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        # To the baseline's advantage: both cost more than they save on models as small as these.
        self.highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
        if integer:
            self.highs.setOptionValue("presolve", "off")
        self.highs.passModel(lp)
        self.index = np.arange(self.columns, dtype=np.int32)

    def solve(self, costs: np.ndarray) -> np.ndarray:
        self.highs.changeColsCost(self.columns, self.index, costs)
        self.highs.run()
        return np.array(self.highs.getSolution().col_value).round()


def solver_for(problem: Problem) -> HighsSolver:
    """The shortest path as a flow LP, the knapsack as a MIP."""
    if isinstance(problem, Knapsack):
        free = np.full(len(problem.capacities), -np.inf)
        return HighsSolver(problem.weights, free, problem.capacities, integer=True, maximise=True)
    assert isinstance(problem, GridShortestPath)
    matrix = np.zeros((problem.rows * problem.cols, len(problem.arcs)))
    for k, (source, target) in enumerate(problem.arcs):
        matrix[source, k] -= 1
        matrix[target, k] += 1
    balance = np.zeros(problem.rows * problem.cols)
    balance[0], balance[-1] = -1, 1
    return HighsSolver(matrix, balance, balance, integer=False, maximise=False)


@dataclass(frozen=True)
class Settings:
    """The paper's settings."""

    step: float
    epsilon: float
    max_steps: int = 6000
    patience: int = 10
    improvement: float = 0.9
    damping: float = 1.0


@dataclass(frozen=True)
class Answer:
    """What one run of the baseline returns."""

    x: torch.Tensor | None
    loss: float
    steps: int


def explain_one(
    kind: str,
    predictor: torch.nn.Module,
    solver: HighsSolver,
    sign: float,
    x0: torch.Tensor,
    factual: torch.Tensor,
    alternative: torch.Tensor,
    settings: Settings,
) -> Answer:
    """One task by MDMM in feature space; `kind` is relative, absolute or epsilon."""
    x, multiplier, idle, steps = x0.clone(), 0.0, 0, 0
    best_x, best, last = None, float("inf"), float("inf")
    while steps < settings.max_steps and idle < settings.patience:
        steps += 1
        x.requires_grad_()
        costs = sign * predictor(x)
        if kind == "relative":
            direction = alternative - factual
        else:
            values = costs.detach()
            optimum = torch.from_numpy(solver.solve((sign * values).numpy()))
            if kind == "absolute":
                direction = alternative - optimum
            else:
                toward = 1 + settings.epsilon if values @ optimum > 0 else 1 - settings.epsilon
                direction = toward * optimum - factual
        h = costs @ direction
        distance = (x - x0).square().sum()
        energy = distance + multiplier * h + settings.damping / 2 * h * h
        (gradient,) = torch.autograd.grad(energy, x)
        violation, loss = h.item(), distance.item()
        near = violation < 1e-3  # the exact test is worth its time only here
        if near and violation <= 5e-7 * (costs.detach() * direction).abs().sum().item():
            if loss < best:
                best_x, best = x.detach(), loss
            if loss < settings.improvement * last:
                last, idle = loss, 0
            else:
                idle += 1
        x = x.detach() - settings.step * gradient
        multiplier += settings.step * violation
    return Answer(best_x, best, steps)
