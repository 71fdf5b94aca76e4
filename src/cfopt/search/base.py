"""The contract of a search: a task in, points out, with progress on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import ClassVar

from torch import Tensor

from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import MISUSE, InputError, in_words


class Search(ABC):
    """An algorithm that looks for nearby contexts in which a task's criterion holds.

    A search holds only its own settings, and is silent: callers show, stop or resume by what it
    yields. What it finds or proves is a claim; `explain` verifies it. When `task.late`, it ends
    with what it has; solves that are asked for later fail.
    """

    #: Whether it keeps to limits on how many features change, and on which of them together.
    counts_changes: ClassVar[bool] = False
    #: Whether it heeds `task.variation`, what answers have to stand up to.
    heeds_variation: ClassVar[bool] = False
    #: Whether it keeps to `task.space.surroundings`, the known contexts that answers must be like.
    heeds_surroundings: ClassVar[bool] = False
    #: Whether answers of other searches would be of another kind, so that none of them stands in.
    stands_alone: ClassVar[bool] = False

    @abstractmethod
    def steps(self, task: Task) -> Iterator[Progress]:
        """Work on the task; every row is returned once, in some report's `finished`."""

    def attempt(self, task: Task) -> Iterator[Progress]:
        """As `steps`, but a row whose search raises an exception fails alone, and says which.

        Rows that were not handed over by then are asked again, one by one.
        """
        waiting = dict.fromkeys(range(len(task)))
        try:
            for progress in self.steps(task):
                if progress.finished is not None:
                    for row in progress.finished.rows.tolist():
                        waiting.pop(row, None)
                yield progress
            return
        except MISUSE:
            raise
        # Any: the caller's models and solvers run here.
        except Exception as error:
            failure = in_words(error)
        if len(task) == 1 and waiting:
            yield Progress(0, 0, 1, task.unanswered(f"the search raised {failure}"))
            return
        for left, row in zip(reversed(range(len(waiting))), waiting, strict=True):
            number = task.row_numbers[row : row + 1]
            for progress in self.attempt(task[number]):
                yield progress.of(number, left + progress.running, len(task))

    def run(self, task: Task) -> Points:
        """Work until every row is finished."""
        return Points.gather([p.finished for p in self.steps(task) if p.finished is not None])

    def refusal(self, task: Task) -> str:
        """Why the search cannot serve a task, and what can; "" if it can."""
        return ""

    def knowing(self, reference: Tensor) -> Search:
        """The search that may begin from known contexts, `(N, ...)`; itself if it cannot."""
        return self

    def unproved(self) -> Search:
        """The search without what only proves, for tasks whose proofs nobody keeps."""
        return self

    def check(self, task: Task) -> None:
        """Raise InputError if the search cannot serve the task."""
        reason = self.refusal(task)
        if reason:
            raise InputError(f"{type(self).__name__} cannot serve this task: {reason}.")


def needs_gradient(task: Task) -> str:
    """Why a search that follows gradients cannot serve a task; "" if it can."""
    if task.differentiable:
        return ""
    return "the predictor has no gradient; use DerivativeFree()"


def check_whole(search: Search, **least: int) -> None:
    """Raise InputError unless settings are whole numbers and at least as large as given."""
    for name, bound in least.items():
        value = getattr(search, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < bound:
            raise InputError(
                f"{type(search).__name__} needs a whole number >= {bound} for {name}, got "
                f"{value!r}."
            )
