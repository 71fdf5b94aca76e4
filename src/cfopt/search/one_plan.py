"""Answers to wishes that stand up to something, behind predictors for which nothing is proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search
from cfopt.search.scenarios import Scenarios


@dataclass(frozen=True)
class OnePlan(Search):
    """Settles on the plan to which the plain answer comes down, and lets another search argue it.

    Arguments:
        plain: the search that answers where nothing has to be stood up to.
        robust: the search that answers about its plan, and heeds the variation.
    """

    heeds_variation: ClassVar[bool] = True
    #: As the searches do that it is given.
    counts_changes: ClassVar[bool] = True
    plain: Search
    robust: Search

    def refusal(self, task: Task) -> str:
        """What the plain search says of the wish, or the other one of a plan."""
        reason = self.plain.refusal(replace(task, variation=None))
        return reason or self.robust.refusal(_about(task, task.rules.factual))

    def steps(self, task: Task) -> Iterator[Progress]:
        """All rows at once."""
        wish = task.rules.wish
        assert wish is not None
        first = self.plain.run(replace(task, variation=None))
        first = first[first.rows.argsort()]
        with torch.no_grad():
            prices = task.prices(task.space.context(first.x))
        plans = wish.best(task.rules.problem, prices.detach().to("cpu", torch.float64)).decisions
        about = _about(task, plans.to(task.rules.factual))
        for progress in self.robust.steps(about):
            done = progress.finished
            if done is not None:
                # What is proved about this plan is not proved about the others.
                done = replace(
                    done,
                    steps=done.steps + first.steps[done.rows],
                    solves=done.solves + first.solves[done.rows],
                    passes=done.passes + first.passes[done.rows],
                    certificates=(None,) * len(done),
                )
            yield replace(progress, finished=done)


def standing_up(search: Search, task: Task) -> Search:
    """What lets a search answer a task whose answers have to stand up to something."""
    if task.variation is None or search.heeds_variation:
        return search
    robust = Scenarios(search)
    return robust if task.rules.wish is None else OnePlan(search, robust)


def _about(task: Task, plans: torch.Tensor) -> Task:
    return replace(task, rules=task.rules.about(plans))
