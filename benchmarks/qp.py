"""Which QP solver for the master: five libraries on the same nearest-point problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import timed

Array = NDArray[np.float64]
#: min |u|^2 subject to G u <= h: the change u, or None where the solver gives none.
Solver = Callable[[Array, Array], Array | None]


def _daqp(g: Array, h: Array) -> Array | None:
    import daqp

    size = g.shape[1]
    u, _, flag, _ = daqp.solve(2 * np.eye(size), np.zeros(size), g, h)
    return u if flag > 0 else None


def _quadprog(g: Array, h: Array) -> Array | None:
    import quadprog

    size = g.shape[1]
    try:
        return quadprog.solve_qp(2 * np.eye(size), np.zeros(size), -g.T, -h)[0]
    except ValueError:
        return None


def _clarabel(g: Array, h: Array) -> Array | None:
    import clarabel
    import scipy.sparse

    size = g.shape[1]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(2 * np.eye(size)),
        np.zeros(size),
        scipy.sparse.csc_matrix(g),
        h,
        [clarabel.NonnegativeConeT(len(h))],
        settings,
    )
    solution = solver.solve()
    return np.array(solution.x) if str(solution.status) == "Solved" else None


def _piqp(g: Array, h: Array) -> Array | None:
    import piqp

    size = g.shape[1]
    solver = piqp.DenseSolver()
    empty = np.zeros((0, size))
    solver.setup(2 * np.eye(size), np.zeros(size), empty, np.zeros(0), g, None, h)
    return solver.result.x.copy() if solver.solve() == piqp.PIQP_SOLVED else None


def _highs(g: Array, h: Array) -> Array | None:
    import highspy

    size = g.shape[1]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    model = highspy.HighsModel()
    model.lp_.num_col_, model.lp_.num_row_ = size, len(h)
    model.lp_.col_cost_ = np.zeros(size)
    model.lp_.col_lower_, model.lp_.col_upper_ = np.full(size, -np.inf), np.full(size, np.inf)
    model.lp_.row_lower_, model.lp_.row_upper_ = np.full(len(h), -np.inf), h
    model.lp_.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.lp_.a_matrix_.start_ = np.arange(0, g.size + 1, size)
    model.lp_.a_matrix_.index_ = np.tile(np.arange(size), len(h))
    model.lp_.a_matrix_.value_ = g.ravel()
    model.hessian_.dim_ = size
    model.hessian_.format_ = highspy.HessianFormat.kTriangular
    model.hessian_.start_ = np.arange(size + 1)
    model.hessian_.index_ = np.arange(size)
    model.hessian_.value_ = np.full(size, 2.0)
    highs.passModel(model)
    highs.run()
    solved = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return np.array(highs.getSolution().col_value) if solved else None


SOLVERS: dict[str, Solver] = {
    "daqp": _daqp,
    "quadprog": _quadprog,
    "piqp": _piqp,
    "clarabel": _clarabel,
    "highs": _highs,
}


def masters(features: int, cuts: int, count: int) -> list[tuple[Array, Array]]:
    """Random masters of which about half are feasible, as they arise between rounds."""
    rng = np.random.default_rng(features * 1000 + cuts)
    out = []
    for k in range(count):
        g = rng.standard_normal((cuts, features))
        inside = rng.standard_normal(features) * 3
        h = g @ inside + 0.1 * rng.random(cuts) if k % 2 == 0 else -rng.random(cuts)
        out.append((g, h))
    return out


def solvers() -> list[dict[str, Any]]:
    """Time a master, answers that break a cut by more than 1e-8, and the loss above the best."""
    rows = []
    for features, cuts in ((5, 6), (10, 6), (10, 30), (50, 30), (200, 60)):
        problems = masters(features, cuts, 40)
        answers = {name: [f(g, h) for g, h in problems] for name, f in SOLVERS.items()}
        for name, solve in SOLVERS.items():

            def work(solve=solve, problems=problems):
                return [solve(g, h) for g, h in problems]

            seconds = timed(work, repeats=3)
            worst_cut, worst_loss = 0.0, 0.0
            for k, (g, h) in enumerate(problems):
                u = answers[name][k]
                known = [a[k] for a in answers.values() if a[k] is not None]
                if u is None:
                    continue
                best = min(float(v @ v) for v in known if (g @ v - h).max() <= 1e-8)
                worst_cut = max(worst_cut, float((g @ u - h).max()))
                worst_loss = max(worst_loss, (float(u @ u) - best) / max(best, 1.0))
            rows.append(
                {
                    "features": features,
                    "cuts": cuts,
                    "solver": name,
                    "us per master": 1e6 * seconds / len(problems),
                    "solved": sum(u is not None for u in answers[name]),
                    "largest breach": worst_cut,
                    "loss above the best": worst_loss,
                }
            )
    return rows
