"""One explanation task for a batch of contexts: what searches work on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch, are_all
from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.progress import Points
from cfopt.engine.recall import Recall
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.space import Space
from cfopt.engine.variation import Variation
from cfopt.pipeline import Pipeline, Predictor
from cfopt.problems.base import Problem


class Evaluation(NamedTuple):
    """A context judged by a fresh solve; everything `(B, ...)`.

    `holds` only where the context is allowed and not strange as well, and the solver did not fail.
    """

    costs: Tensor
    prices: Tensor
    rival: Tensor
    direction: Tensor
    h: Tensor
    holds: Tensor
    loss: Tensor
    allowed: Tensor
    strange: Tensor
    failures: dict[int, str]

    @staticmethod
    def gather(parts: list[Evaluation]) -> Evaluation:
        """Join looks at consecutive rows."""
        names = [name for name in Evaluation._fields if name != "failures"]
        failures: dict[int, str] = {}
        before = 0
        for part in parts:
            failures |= {before + row: reason for row, reason in part.failures.items()}
            before += len(part.h)
        tensors = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return Evaluation(**tensors, failures=failures)


@dataclass(frozen=True, eq=False)
class Task(Batch):
    """Find, for each row, the nearest context in which the criterion holds.

    Arguments:
        rules: what the prices of a context must satisfy.
        space: where to look, and what to keep small.
        predictor: from contexts to costs; in eval mode while a search runs.
        differentiable: whether the predictor has a gradient by its input.
        recall: what verification has solved before, if it should not be solved again.
        variation: what answers must stand up to, if anything.
        known: for each row decisions that a search about it has met before, `(K, m)`, with which
            exact ones begin; empty without any.
    """

    rules: Rules = field(metadata=ROWS)
    space: Space = field(metadata=ROWS)
    predictor: Predictor
    differentiable: bool = True
    recall: Recall | None = None
    variation: Variation | None = None
    known: tuple[Array, ...] = field(default=(), metadata=ROWS)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, rows: Tensor) -> Self:
        return self if are_all(rows, len(self)) else super().__getitem__(rows)

    @property
    def row_numbers(self) -> Tensor:
        """The numbers of all rows, on the device of their points, `(B,)`."""
        return torch.arange(len(self), device=self.space.home.device)

    @property
    def late(self) -> bool:
        """Whether the time for this task is up, so that searches should end with what they have."""
        return is_over(self.rules.problem.deadline)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Predictor and problem."""
        return Pipeline(self.predictor, self.rules.problem)

    def prices(self, x: Tensor) -> Tensor:
        """Predicted prices, turned so that less is better: `(B, ...) -> (B, m)`."""
        return self.rules.turned(self.pipeline.predict(x))

    def look(self, point: Tensor) -> Evaluation:
        """Predict, solve and judge points, with half of what verification grants."""
        with torch.no_grad():
            x, more = self.space.shown(point)
            costs = self.pipeline.predict(x)
        prices = self.rules.turned(costs)
        rival = self.rules.rival(prices)
        direction, h, holds = self.rules.judge(
            prices, rival.decisions, TOLERANCE / 2, rival.shortfall
        )
        if rival.failures:
            holds[list(rival.failures)] = False
        allowed = self.space.allows(x)
        loss = self.space.loss_at(point, x, more)
        strange = self.space.strangeness(x)
        holds = holds & allowed & (strange == 0)
        return Evaluation(
            costs,
            prices,
            rival.decisions,
            direction,
            h,
            holds,
            loss,
            allowed,
            strange,
            rival.failures,
        )

    def unanswered(self, note: str) -> Points:
        """All rows where they are, without an answer and for the same reason."""
        rows = self.row_numbers
        none = torch.zeros_like(rows)
        start = self.space.home
        return Points(rows, start, none.bool(), none, none, none, notes=(note,) * len(rows))

    def starting_at(self, points: Tensor) -> Self:
        """The same task, whose searches begin at other points, `(B, ...)`."""
        return replace(self, space=replace(self.space, start=points))

    def solving(self, problem: Problem) -> Self:
        """The same task, with another solver."""
        if problem is self.rules.problem:
            return self
        return replace(self, rules=replace(self.rules, problem=problem))

    def until(self, deadline: float) -> Self:
        """The same task, whose searches end by then with what they have.

        A solve that has begun is not stopped.
        """
        return self.solving(self.rules.problem.until(deadline))

    def by_itself(self, predictor: Predictor | None = None) -> Self:
        """The task of one predictor, the own one by default, in contexts just as they are."""
        own = self.predictor if predictor is None else predictor
        recall = self.recall if predictor is None else None
        return replace(self, predictor=own, recall=recall, variation=None)

    def proven(self) -> Self:
        """The task whose optima are proven, for searches whose claims should hold."""
        return self.solving(self.rules.problem.exact())
