"""The one plan of a wish that is to do in every context and under every predictor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask

#: The most plans of which each is looked at.
_LISTED = 100_000


def about_one_plan(task: Task, x: Tensor, costs: Tensor) -> Task:
    """A task with a wish and a variation, about the plan for each row that stands up the best.

    A plan that is best of all under each predictor is best at the sum of their prices, and whatever
    is best there is then best under each of them; the same is true of contexts around x. A plan
    that is to beat the factual decision alone need not be: there all are looked at, as far as they
    can be listed.

    Arguments:
        task: any task; one without a wish or a variation is returned as it is.
        x: contexts, `(B, ...)`.
        costs: what the task's own predictor predicts there, `(B, n)` in float64 on the CPU.
    """
    if task.rules.wish is None or task.variation is None:
        return task
    host = task.rules.on_host()
    assert host.wish is not None
    prices = [host.turned(costs)]
    with torch.no_grad():
        for other in task.variation.predictors:
            there = task.by_itself(other).pipeline.deployed(x)
            prices.append(host.turned(there.to("cpu", torch.float64)))
    listed = None if host.calls_solver else host.wish.plans.decisions(_LISTED)
    if listed is None:
        plans = host.wish.best(host.problem, torch.stack(prices).sum(0)).decisions
    else:
        plans = torch.from_numpy(_against_factual(task, listed.numpy(), prices))
    return replace(task, rules=task.rules.about(plans.to(task.rules.factual)))


def _against_factual(task: Task, plans: Array, prices: list[Tensor]) -> Array:
    """Of some plans, `(D, m)`, the one for each row whose worst loss against y0 is least."""
    about = replace(task, rules=task.rules.about(task.rules.factual))
    factual = about.rules.on_host().factual.numpy()
    models = () if AffineTask.refusal(about) else AffineTask(about).models
    best = []
    for row, own in enumerate(factual):
        directions = plans - own
        worst = np.max([directions @ one[row].numpy() for one in prices], axis=0)
        if models:
            pairs = zip(models, prices, strict=True)
            each = [model.shift(directions) + directions @ one[row].numpy() for model, one in pairs]
            worst = np.max(each, axis=0)
        best.append(plans[int(worst.argmin())])
    return np.stack(best)
