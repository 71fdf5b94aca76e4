"""Answers that stand up to something, behind predictors for which nothing can be proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from cfopt import registry
from cfopt.engine.attack import Attack, attack
from cfopt.engine.joint import Scenario, joint
from cfopt.engine.progress import Points, Progress
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.exact_task import NORMS
from cfopt.exact.tree_failure import failure_around, served
from cfopt.search.base import Search, check_whole

#: Scenarios are looked for a little farther out than answers must hold: nearby ones are then met.
_FARTHER = 1.02


@registry.searches.register
@dataclass(frozen=True)
class Scenarios(Search):
    """Lets another search answer in several scenarios at once, and looks for one that is missing.

    Each of several predictors is a scenario. Where contexts may be off, the worst context around
    the answer is looked for along the gradient of the criterion, behind trees the nearest cell in
    which it fails; if it does not hold there, that shift is a further scenario, a cut on all that
    follows, and the search goes on from the answer. An answer to which no exception is found is
    taken; verification says whether that is proved.

    Arguments:
        of: the search.
        nearby: searches that go on from an answer, the first that serves the task.
        max_rounds: how many shifts are collected for a row.
    """

    heeds_variation: ClassVar[bool] = True
    #: As the searches do that it is given.
    counts_changes: ClassVar[bool] = True
    of: Search
    nearby: tuple[Search, ...] = ()
    max_rounds: int = 10

    def __post_init__(self) -> None:
        check_whole(self, max_rounds=1)

    def refusal(self, task: Task) -> str:
        """What the search says of the task in one scenario."""
        return self.of.refusal(joint(task, [Scenario(task.predictor)]))

    def steps(self, task: Task) -> Iterator[Progress]:
        """All rows at once where only predictors differ; else one row after the other."""
        variation = task.variation
        further = () if variation is None else variation.predictors
        predictors = [Scenario(task.predictor), *map(Scenario, further)]
        if variation is None or variation.off_by is None:
            yield from self.of.steps(joint(task, predictors))
            return
        for row in range(len(task)):
            points = self._answer(task[task.row_numbers[row : row + 1]], predictors)
            points = replace(points, rows=task.row_numbers[row : row + 1])
            yield Progress(row + 1, len(task) - row - 1, len(task), points)

    def _answer(self, task: Task, known: list[Scenario]) -> Points:
        """Answer one row."""
        assert task.variation is not None
        assert task.variation.off_by is not None
        off_by = task.variation.off_by
        wider = replace(
            task,
            variation=replace(
                task.variation, off_by=replace(off_by, radius=_FARTHER * off_by.radius)
            ),
        )
        points, met = self.of.run(joint(task, known)), False
        for k in range(self.max_rounds):
            if not points.found.all() or task.late:
                break
            with torch.no_grad():
                x = task.space.context(points.x)
            worst = _attack(wider, x, off_by, k)
            met = bool((worst.excess <= TOLERANCE / 2).all())
            if met:
                break
            predictor = known[int(worst.model)].predictor
            known = [*known, Scenario(predictor, (worst.x - x)[0].detach())]
            points = _after(points, self._again(joint(task.starting_at(points.x), known)))
        if not met and points.found.all():
            with torch.no_grad():
                x = task.space.context(points.x)
            met = bool((_attack(task, x, off_by, 0).excess <= TOLERANCE / 2).all())
        note = "" if met else points.notes[0] or "around each answer an exception was found"
        return replace(points, found=points.found & met, notes=(note,))

    def _again(self, task: Task) -> Points:
        """A few steps from the last answer, which is not far off; the whole search if in vain."""
        for search in self.nearby:
            if not search.refusal(task):
                found = search.run(task)
                return found if found.found.all() else _after(found, self.of.run(task))
        return self.of.run(task)


def _attack(task: Task, x: torch.Tensor, off_by: OffBy, seed: int) -> Attack:
    """The worst context that is found around one; behind trees the nearest failure, if any."""
    if served(task):
        failure = failure_around(task, x)
        k, at = (0, x) if failure is None else (failure[0], torch.from_numpy(failure[1]).to(x))
        excess = torch.tensor([-torch.inf if failure is None else torch.inf])
        return Attack(at.view_as(x), torch.tensor([k]), excess, 0)
    return attack(task, x, NORMS[type(off_by.norm)].steepest, seed)


def _after(before: Points, after: Points) -> Points:
    """What a search took on top of what had been taken before."""
    counts = {name: getattr(before, name) + getattr(after, name) for name in ("steps", "solves")}
    return replace(after, **counts, passes=before.passes + after.passes)
