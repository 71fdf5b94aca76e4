"""Whether answers are robust to contexts that are a little off, and to other predictors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cfopt.engine.attack import attack
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy, Variation
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.exact_task import NORMS
from cfopt.exact.relu import ReluTask
from cfopt.exact.relu.ball import ReluBall
from cfopt.exact.tree_failure import TreeFailures
from cfopt.exact.worst_case import WorstCases
from cfopt.question.proximity import L2


@dataclass(frozen=True)
class Assurance:
    """What is known of some rows; tensors are on the CPU.

    Arguments:
        holds: whether no exception is known, `(B,)`.
        excess: the largest h that is known, `(B,)`.
        tried: at how many points that was tried, where it is not proved; else 0, `(B,)`.
        words: the same, to follow an answer.
    """

    holds: Tensor
    excess: Tensor
    tried: Tensor
    words: tuple[str, ...]


def assure(task: Task, x: Tensor, costs: Tensor) -> Assurance:
    """Judge contexts whose criterion holds in themselves: `(B, ...) -> Assurance`.

    Each predictor by itself. Without a ball it is asked in the context. Behind affine predictors
    and trees the ball is decided exactly, as far as decisions can be listed or bounded and cells
    are not too many; elsewhere the criterion is tried at points of it, which proves nothing.

    Arguments:
        task: the task, with a variation.
        x: the contexts.
        costs: those predicted there by the task's own predictor, `(B, n)` in float64.
    """
    variation = task.variation
    assert variation is not None
    alone = replace(task, space=Space(x, L2()))
    holds = torch.ones(len(x), dtype=torch.bool)
    excess = torch.full((len(x),), -torch.inf, dtype=torch.float64)
    tried = torch.zeros(len(x), dtype=torch.long)
    for k, predictor in enumerate((task.predictor, *variation.predictors)):
        own = alone.by_itself(predictor if k else None)
        if k:
            with torch.no_grad():
                costs = own.pipeline.deployed(x).to("cpu", torch.float64)
        prices = own.rules.on_host().turned(costs)
        if variation.off_by is None:
            found = _asked(own, prices)
        else:
            found = _in_ball(own, prices, variation.off_by)
        holds &= found[0]
        excess, tried = excess.maximum(found[1]), tried + found[2]
    return Assurance(
        holds, excess, tried, tuple(f", as {variation.words}{trials(n)}" for n in tried.tolist())
    )


def trials(count: int) -> str:
    """What is said of an answer that was only tried, to follow where it is to hold."""
    return f": held at every one of {count:,} points, which is no proof" if count else ""


_Found = tuple[Tensor, Tensor, Tensor]


def _asked(task: Task, prices: Tensor) -> _Found:
    """Whether the criterion holds, h, and 0 points: `(B, m)`."""
    rules = task.rules.on_host()
    rival = rules.rival(prices)
    judged = rules.judge(prices, rival.decisions, shortfall=rival.shortfall)
    holds = judged.holds.clone()
    holds[list(rival.failures)] = False
    return holds, judged.h, torch.zeros(len(prices), dtype=torch.long)


def _in_ball(task: Task, prices: Tensor, off_by: OffBy) -> _Found:
    """Whether the criterion holds in a ball, the largest h known, and how many points were tried.

    Arguments:
        task: one predictor, around its origin.
        prices: those at the origin, `(B, m)`.
        off_by: the ball.
    """
    varied = replace(task, variation=Variation(off_by))
    if not AffineTask.refusal(varied):
        rows = range(len(prices))
        worst = WorstCases(AffineTask(varied)).of(task.rules.on_host(), rows, [prices])
        holds = worst.holds(TOLERANCE)
        holds[list(worst.rival.failures)] = False
        return holds, torch.from_numpy(worst.excess), torch.from_numpy(worst.tried)
    holds, h, tried = _asked(task, prices)
    open_rows = list(range(len(prices)))
    if TreeFailures.serves(task):
        trees = TreeFailures(task, off_by)
        nearest = [trees.nearest(row) for row in open_rows]
        for row, one in enumerate(nearest):
            holds[row] &= one.x is None
            h[row] = max(float(h[row]), one.excess)
        open_rows = [row for row, one in enumerate(nearest) if one.x is None and one.bound < np.inf]
    elif not ReluTask.refusal(task):
        network = ReluBall(task, off_by)
        open_rows = [row for row in open_rows if not network.holds(row, prices[row].numpy())]
    if open_rows:
        part = _at_points(varied[torch.tensor(open_rows)], off_by)
        holds[open_rows] &= part[0]
        h[open_rows] = h[open_rows].maximum(part[1])
        tried[open_rows] = part[2]
    return holds, h, tried


def _at_points(task: Task, off_by: OffBy) -> _Found:
    """Try the criterion at points of a ball, the worst that are found: results as of `_in_ball`."""
    origin = task.space.origin
    found = attack(task, origin, NORMS[type(off_by.norm)].steepest)
    with torch.no_grad():
        costs = task.pipeline.deployed(found.x)
    rules = task.rules.on_host()
    prices = rules.turned(costs.to("cpu", torch.float64))
    h = rules.judge(prices, rules.rival(prices).decisions).h
    tried = torch.full((len(h),), found.points, dtype=torch.long)
    return (found.excess <= TOLERANCE).cpu(), h, tried
