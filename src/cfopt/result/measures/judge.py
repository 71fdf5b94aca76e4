"""Whether other contexts, or other predictors, would have met the criterion of each row."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cfopt.engine.recall import Recall
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.pipeline import Pipeline
from cfopt.question.domain import Domain
from cfopt.question.proximity import L2
from cfopt.result.explanation import Explanation


class Judge:
    """The questions of an explanation's rows, to be asked of other contexts.

    Every answer comes from a fresh solve; what was decided in fact stays as it was.

    Arguments:
        explanation: the rows.
        pipeline: the predictor that is asked, and the problem.
    """

    def __init__(self, explanation: Explanation, pipeline: Pipeline) -> None:
        e = explanation
        self.pipeline = pipeline
        self.domain = Domain.of(e.features, e.x0)
        size = pipeline.problem.prices(e.costs_before).abs().amax(1)
        rules = Rules(pipeline.problem, e.factual, e.criterion, e.margin, size, None, e.x.dtype)
        space = Space(e.x0, L2(), self.domain)
        self._task = Task(rules, space, pipeline.predictor, False, Recall())

    def valid(self, rows: Tensor, x: Tensor) -> Tensor:
        """Whether contexts explain rows, and are allowed: `(K,), (K, ...) -> (K,)`."""
        return self._judged(self._task[rows], x)

    def holds(self, rows: Tensor, x: Tensor) -> Tensor:
        """Whether the criterion holds there, allowed or not: `(K,), (K, ...) -> (K,)`."""
        task = self._task[rows]
        return self._judged(replace(task, space=replace(task.space, domain=None)), x)

    def _judged(self, task: Task, x: Tensor) -> Tensor:
        if not len(x):
            return torch.zeros(0, dtype=torch.bool)
        with self.pipeline.eval_mode():
            return verify(task, x).valid
