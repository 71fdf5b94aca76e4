"""explain_costs(): the smallest change of the costs themselves for which a wish comes true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from cfopt.engine.progress import Progress
from cfopt.errors import InputError
from cfopt.explaining.explain import answer
from cfopt.pipeline import Pipeline
from cfopt.problems import Problem
from cfopt.question import Criterion, Question
from cfopt.question.features import Features
from cfopt.question.prices import Prices
from cfopt.question.proximity import L1, Proximity
from cfopt.question.robustness import Robustness
from cfopt.result.explanation import Explanation
from cfopt.search import Search


def explain_costs(
    costs: Any,
    problem: Problem | Any,
    criterion: Criterion,
    *,
    proximity: Proximity | None = None,
    features: Features | None = None,
    margin: float = 0.0,
    search: Search | None = None,
    time_limit: float | None = None,
    robust: Robustness | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Find the smallest change of costs for which the criterion holds: inverse optimisation.

    "How much cheaper would that road have to be?" There is no predictor, or rather the identity,
    which is affine: answers are the nearest ones, with a proof, or proved not to exist.

    Arguments:
        costs: the costs as they are: `(B, n)`, `(n,)`, or None for the problem's own objective,
            that of an MPS or LP file.
        problem: what is solved.
        criterion: `Relative`, `Absolute`, `Epsilon`, or another one.
        proximity: what to keep small; by default `L1()`, the sum of all changes. `L2()` spreads
            them, `LInf()` keeps the largest small.
        features: names, scales, bounds and locks of the entries. Without names, the problem's own.
        margin, search, time_limit, robust, on_progress: as for `explain`.

    Returns an explanation whose features are the entries of the costs.
    """
    pipeline = Pipeline(nn.Identity(), problem)
    problem = pipeline.problem
    if costs is None:
        if problem.objective is None:
            raise InputError(
                f"{type(problem).__name__} has no costs of its own, as an MPS or LP file would. "
                "Pass them: explain_costs(costs, problem, ...)."
            )
        costs = torch.from_numpy(np.array(problem.objective))
    if not (isinstance(costs, torch.Tensor) and costs.is_floating_point()):
        costs = torch.as_tensor(np.asarray(costs, dtype=np.float64))
    prices = Prices(
        L1() if proximity is None else proximity, Features() if features is None else features
    )
    question = Question(
        criterion,
        margin,
        prices.proximity,
        search=search,
        features=prices.entries(problem),
        time_limit=time_limit,
        robust=Robustness.of(robust),
    )
    return answer(costs, pipeline, question, on_progress)
