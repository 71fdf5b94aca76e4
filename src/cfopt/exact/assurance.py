"""Whether answers stand up to contexts that are a little off, and to other predictors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt.engine.attack import attack
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.exact_task import NORMS
from cfopt.exact.worst_case import WorstCases
from cfopt.question.proximity import L2

#: What is said of an answer to which no exception was found, though there may be one.
UNPROVED = "as far as was searched, which does not prove it"


@dataclass(frozen=True)
class Assurance:
    """What is known of some rows; tensors are on the CPU.

    Arguments:
        holds: whether no exception is known, `(B,)`.
        excess: the largest h that is known, `(B,)`.
        words: how far that is proved, to follow an answer.
    """

    holds: Tensor
    excess: Tensor
    words: tuple[str, ...]


def assure(task: Task, x: Tensor, costs: Tensor) -> Assurance:
    """Judge contexts whose criterion holds in themselves: `(B, ...) -> Assurance`.

    Arguments:
        task: the task, with a variation.
        x: the contexts.
        costs: those predicted there by the task's own predictor, `(B, n)` in float64.
    """
    variation = task.variation
    assert variation is not None
    proved = f", as {variation.words}"
    doubtful = f"{proved}, {UNPROVED}"
    if not AffineTask.refusal(task):
        model, host = AffineTask(task), task.rules.on_host()
        prices = [host.turned(costs)]
        with torch.no_grad():
            for other in variation.predictors:
                there = task.by_itself(other).pipeline.deployed(x)
                prices.append(host.turned(there.to("cpu", torch.float64)))
        worst = WorstCases(model).of(host, range(len(task)), prices)
        holds = worst.holds(TOLERANCE)
        holds[list(worst.rival.failures)] = False
        words = tuple(proved if sure else doubtful for sure in worst.proved)
        return Assurance(holds, torch.from_numpy(worst.excess), words)
    norm = L2() if variation.off_by is None else variation.off_by.norm
    found = attack(task, x, NORMS[type(norm)].steepest)
    holds = found.excess <= TOLERANCE
    # Without a ball, each predictor was asked, and nothing is left to search.
    sure = variation.off_by is None
    return Assurance(
        holds, _violation(task, found.x, found.model), (proved if sure else doubtful,) * len(task)
    )


def _violation(task: Task, x: Tensor, which: Tensor) -> Tensor:
    """The h of contexts, each under the predictor of its number: `(B, ...), (B,) -> (B,)`."""
    assert task.variation is not None
    violation = torch.zeros(len(task), dtype=torch.float64)
    host = task.rules.on_host()
    for k, predictor in enumerate((task.predictor, *task.variation.predictors)):
        rows = (which == k).nonzero().flatten()
        if len(rows):
            with torch.no_grad():
                costs = task.by_itself(predictor).pipeline.deployed(x[rows.to(x.device)])
            part = host[rows]
            prices = part.turned(costs.to("cpu", torch.float64))
            violation[rows] = part.judge(prices, part.rival(prices).decisions).h
    return violation
