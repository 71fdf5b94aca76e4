"""How far it is to a context in which no decision is enough."""

from __future__ import annotations

import numpy as np
import torch

from cfopt._typing import Array
from cfopt.engine.rules import Rules
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import HalfSpaces, System, find_clash
from cfopt.question.quantifier import Quantifier

#: Decisions after which a bound is as good as it gets, and the most by which a cut may be broken,
#: as a fraction of its terms.
_ROUNDS, _BROKEN = 200, 1e-9


def distance_to_failure(
    model: AffineTask, rules: Rules, row: int, prices: Array
) -> tuple[float, bool]:
    """The length of the least w by which a context must be off for no decision to be enough.

    A decision meets `<prices, a y + e> <= 0` for all its inequalities at once where the best one
    does, since a >= 0: so all fail where for one of them `<theta + S w, a y + e> > 0` for every y.
    That is a polyhedron of w, whose nearest point is found by cutting planes: any feasible y gives
    one of its half-spaces, the solver says which is missing.

    Arguments:
        model: the task under one predictor.
        rules: those of the row alone, with a solver.
        row: its number in the model.
        prices: its prices, `(m,)`.

    Returns a lower bound, inf if no context fails, and whether it is the length itself or inf.
    """
    least, exact = np.inf, True
    for multiple in model.multiples(Quantifier.SOME):
        for end in model.ends(row):
            length, sure = _to_polyhedron(model, rules, prices, multiple, end)
            least, exact = min(least, length), exact and sure
    return least, exact


def _to_polyhedron(
    model: AffineTask, rules: Rules, prices: Array, multiple: float, end: Array
) -> tuple[float, bool]:
    slopes = model.spread(np.eye(len(prices)))
    size = slopes.shape[1]
    system = System.box(np.full(size, -np.inf), np.full(size, np.inf))
    w, least, known = np.zeros(size), 0.0, set[bytes]()
    for _ in range(_ROUNDS):
        there = prices + slopes @ w
        solved = rules.optimum(torch.from_numpy(there)[None])
        if solved.failures or solved.shortfall is not None:
            return least, False
        decision = solved.decisions[0].numpy()
        direction = multiple * decision + end
        terms = there * direction
        if terms.sum() >= -_BROKEN * np.abs(terms).sum() or decision.tobytes() in known:
            return least, True
        known.add(decision.tobytes())
        none = np.zeros(1)
        normal, limit = -direction @ slopes, direction @ prices
        cut = HalfSpaces(normal[None], np.array([limit]), none, none, none)
        system = system.with_cuts(cut)
        found = model.noise.nearest(system)
        if not isinstance(found, tuple):
            clash = find_clash(system)
            return (np.inf, True) if clash is not None else (least, False)
        w, bound = found[0].values, found[1]
        least = max(least, max(bound, 0.0) ** (1 / model.noise.power))
    return least, False
