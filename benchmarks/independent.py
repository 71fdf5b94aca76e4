"""Answers by other means, for tests and measurements: all decisions at once, other solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import clarabel
import numpy as np
import quadprog
import scipy.optimize
import scipy.sparse
import torch
from numpy.typing import NDArray

import cfopt
from cfopt.problems import Finite

Array = NDArray[np.float64]
Nearest = Callable[[Array, Array], float]


def nearest_l2(g: Array, h: Array) -> float:
    """`min |u|^2` subject to `g u <= h`, by quadprog; inf if there is none.

    quadprog gives up on some degenerate systems: then linear programming and clarabel decide.
    """
    size = g.shape[1]
    if not len(g):
        return 0.0
    length = np.maximum(np.linalg.norm(g, axis=1), 1e-300)
    try:
        u = quadprog.solve_qp(
            2 * np.eye(size), np.zeros(size), -(g / length[:, None]).T, -h / length
        )[0]
    except ValueError:
        scaled = (g / length[:, None], h / length)
        return by_interior_point(*scaled, np.ones(size)) if is_feasible(*scaled) else np.inf
    return float(u @ u)


def by_interior_point(g: Array, h: Array, counts: Array) -> float:
    """The same by clarabel, where only some entries of u count (1 or 0)."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solution = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(2 * np.diag(counts)),
        np.zeros(g.shape[1]),
        scipy.sparse.csc_matrix(g),
        h,
        [clarabel.NonnegativeConeT(len(h))],
        settings,
    ).solve()
    assert "Solved" in str(solution.status), solution.status
    return float(counts @ np.square(solution.x))


def nearest_l1(g: Array, h: Array) -> float:
    """The same for `min |u|_1`, by scipy."""
    found = scipy.optimize.linprog(np.ones(2 * g.shape[1]), np.hstack([g, -g]), h, method="highs")
    return float(found.fun) if found.status == 0 else np.inf


def nearest_linf(g: Array, h: Array) -> float:
    """The same for `min max_j |u_j|`, by scipy."""
    eye, ones = np.eye(g.shape[1]), np.ones((g.shape[1], 1))
    rows = np.block([[g, np.zeros((len(g), 1))], [eye, -ones], [-eye, -ones]])
    limits = np.append(h, np.zeros(2 * g.shape[1]))
    largest = np.append(np.zeros(g.shape[1]), 1.0)
    found = scipy.optimize.linprog(largest, rows, limits, bounds=(None, None), method="highs")
    return float(found.fun) if found.status == 0 else np.inf


def is_feasible(g: Array, h: Array) -> bool:
    """Whether some u has `g u <= h`, by scipy."""
    nothing = np.zeros(g.shape[1])
    return scipy.optimize.linprog(nothing, g, h, bounds=(None, None), method="highs").status == 0


def affine(pipeline: cfopt.Pipeline) -> tuple[Array, Array]:
    """Weight and bias of a linear predictor, turned to minimisation."""
    layer, sign = pipeline.predictor, pipeline.problem.sense.sign
    return sign * layer.weight.detach().numpy(), sign * layer.bias.detach().numpy()


def cuts(pipeline: cfopt.Pipeline, x0: Array, directions: Array) -> tuple[Array, Array]:
    """`<theta(x0 + u), d> <= 0` for each direction, as `g u <= h`."""
    weight, bias = affine(pipeline)
    return directions @ weight, -directions @ (weight @ x0 + bias)


def best_of_all(pipeline: cfopt.Pipeline, x0: Array, alternative: Array, nearest: Nearest) -> float:
    """The distance at which an alternative is the best of all listed decisions."""
    listed = pipeline.problem.decisions().numpy()
    g, h = cuts(pipeline, x0, alternative - listed)
    kept = np.abs(g).sum(1) > 1e-12
    return np.inf if (h[~kept] < -1e-12).any() else nearest(g[kept], h[kept])


def shortest_by_duality(pipeline: cfopt.Pipeline, x0: Array, alternative: Array) -> float:
    """The squared distance at which a path is shortest: potentials p with `p_j - p_i <= cost_ij`.

    One quadratic program in x and p: a path is shortest if and only if some potentials respect
    every arc and rise by its length from end to end.
    """
    problem = pipeline.problem
    weight, bias = affine(pipeline)
    nodes = problem.rows * problem.cols
    incidence = np.zeros((len(problem.arcs), nodes))
    for k, (source, target) in enumerate(problem.arcs):
        incidence[k, source], incidence[k, target] = -1.0, 1.0
    costs = weight @ x0 + bias
    ends = np.zeros(nodes)
    ends[0], ends[-1] = 1.0, -1.0
    path = np.concatenate([alternative @ weight, ends])
    g = np.concatenate([np.hstack([-weight, incidence]), path[None]])
    counts = np.concatenate([np.ones(weight.shape[1]), np.zeros(nodes)])
    return by_interior_point(g, np.append(costs, -alternative @ costs), counts)


def epsilon_by_brute_force(
    pipeline: cfopt.Pipeline, x0: Array, factual: Array, epsilon: float, nearest: Nearest
) -> float:
    """The least distance over the sign of v and the other decision that attains it.

    A decision is looked at only while its own inequality alone is not too far away already.
    """
    listed = pipeline.problem.decisions().numpy()
    options = []
    for sign in (1.0, -1.0):
        for y in listed[(listed != factual).any(axis=1)]:
            topple = cuts(pipeline, x0, ((1 + sign * epsilon) * y - factual)[None])
            alone = max(0.0, -topple[1][0]) / max(np.linalg.norm(topple[0]), 1e-300)
            options.append((alone, sign, y, topple))
    best = np.inf
    for alone, sign, y, topple in sorted(options, key=lambda option: option[0]):
        if alone**2 >= best and nearest is nearest_l2:
            break
        lowest = cuts(pipeline, x0, y - listed)  # y is optimal, so that v = <theta, y>
        side = cuts(pipeline, x0, -sign * y[None])
        g, h = (np.concatenate(parts) for parts in zip(lowest, side, topple, strict=True))
        kept = np.abs(g).sum(1) > 1e-12
        if not (h[~kept] < -1e-12).any():
            best = min(best, nearest(g[kept], h[kept]))
    return best


@dataclass(frozen=True)
class Mixed:
    """A small task with whole numbers and a one-hot group, and its answer by brute force."""

    pipeline: cfopt.Pipeline
    x0: Array
    wanted: Array
    features: cfopt.Features
    choices: list[Array]

    def answer(self, power: int) -> float:
        """The least cost over all whole-number choices; `size` is what is left to move.

        The power is 2 for squared Euclidean distances, 1 for sums of sizes.
        """
        listed, scale = self.pipeline.problem.decisions().numpy(), np.array(self.features.scale)
        best = np.inf
        for choice in self.choices:
            start = np.append(choice, self.x0[5])
            g, h = cuts(self.pipeline, start, self.wanted - listed)
            slope = np.append(g[:, 5], [1.0, -1.0, 1.0])
            slack = [3.0 - start[5], start[5] + 2.0, 4.5 - start[0] - start[5]]
            limit = np.append(h, slack)
            flat = np.abs(slope) < 1e-12
            low = max(limit[slope < -1e-12] / slope[slope < -1e-12])
            high = min(limit[slope > 1e-12] / slope[slope > 1e-12])
            if (limit[flat] < -1e-9).any() or low > high + 1e-12:
                continue
            change = np.append(choice - self.x0[:5], np.clip(0.0, low, high)) / scale
            best = min(best, float((np.abs(change) ** power).sum()))
        return best


def mixed_tasks(count: int) -> Iterator[Mixed]:
    """Six features: two whole numbers, a group of three colours, and one that is free."""
    rng = np.random.default_rng(0)
    for trial in range(count):
        x0 = np.array([rng.integers(0, 4), rng.integers(-1, 2), 0.0, 0.0, 0.0, rng.normal()])
        x0[2 + rng.integers(3)] = 1.0
        x0[5] = np.clip(x0[5], -2.0, min(3.0, 4.5 - x0[0]))
        rises = rng.random() < 0.3
        features = cfopt.Features(
            ["rooms", "floor", "red", "green", "blue", "size"],
            scale=rng.uniform(0.3, 2.0, 6),
            lower={"rooms": 0, "floor": -1, "size": -2.0},
            upper={"rooms": 3, "floor": 1, "size": 3.0},
            only_increase=["floor"] if rises else [],
            integer=["rooms", "floor"],
            one_hot=[["red", "green", "blue"]],
            linear=[cfopt.LinearLimit({"rooms": 1.0, "size": 1.0}, upper=4.5)],
        )
        choices = [
            np.array([rooms, floor, *group])
            for rooms in range(4)
            for floor in range(int(x0[1]) if rises else -1, 2)
            for group in np.eye(3)
        ]
        problem = Finite(rng.integers(0, 2, (8, 5)).astype(float) + np.eye(8, 5))
        predictor = torch.nn.Linear(6, 5).double()
        with torch.no_grad():
            weight = torch.randn((5, 6), generator=torch.Generator().manual_seed(trial))
            predictor.weight.copy_(weight)
            predictor.bias.fill_(1.0)
        listed = problem.decisions().numpy()
        wanted = listed[rng.integers(len(listed))]
        yield Mixed(cfopt.Pipeline(predictor, problem), x0, wanted, features, choices)
