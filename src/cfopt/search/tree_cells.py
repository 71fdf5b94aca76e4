"""The nearest explanation behind a tree ensemble, with a proof, for any problem."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt import clock, registry
from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.progress import Moving, Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.regret import RegretBounds
from cfopt.exact.tree_task import TreeTask
from cfopt.extras import require
from cfopt.question.quantifier import Quantifier
from cfopt.search.base import Search, check_whole
from cfopt.search.reference import JudgedReferences, nearest_first

if TYPE_CHECKING:
    from cfopt.search.tree_row import TreeRow

#: Seconds of work, after which more threads than one are worth it, and between reports.
_QUICK, _PULSE = 0.2, 0.5


@registry.searches.register
@dataclass(frozen=True)
class TreeCells(Search):
    """Branch and cut over boxes of cells, between the thresholds that the trees compare.

    Costs are constant in a cell, and the loss is a sum or the largest over features, so that the
    nearest context of a box of cells is known at once. A box is refuted where a cut is broken by
    the least leaves that each tree can reach in it, or divided; the nearest cell that meets all
    cuts is judged by the solver, whose decision becomes a cut. When nothing nearer is open, it is
    the closest explanation there is; when nothing is open at all, there is none.

    Where some decision is enough, as for `Epsilon`, each decision is searched for; if there are too
    many, those that the solver meets, and boxes are refuted for all decisions by one solve. Of a
    wish each plan that grants it is searched for; if there are too many, likewise.

    Arguments:
        contexts: known contexts, such as the training data, `(N, p)`; valid ones are starts.
        max_decisions: the most decisions to list, where some decision is enough; or the most plans
            that grant a wish.
        seconds_a_row: after which the best answer of a row so far is taken, with the bound that is
            proved by then; inf for no end. Where `explain` has a time limit, rows share it alike.
        threads: how many rows are worked on at once, by default as many as PyTorch's threads; the
            solver and the model are asked by one at a time. Answers do not depend on it. As long as
            rows are done quickly there is one thread, since others would only wait for it.
    """

    heeds_variation: ClassVar[bool] = True
    contexts: Tensor | None = field(default=None, compare=False)
    max_decisions: int = 2000
    seconds_a_row: float = 60.0
    threads: int | None = None

    def __post_init__(self) -> None:
        check_whole(self, max_decisions=1)
        if self.threads is not None:
            check_whole(self, threads=1)
        if not self.seconds_a_row > 0:
            raise InputError(f"TreeCells needs seconds_a_row > 0, got {self.seconds_a_row!r}.")

    def knowing(self, reference: Tensor) -> TreeCells:
        """The same, which begins from known contexts that are valid."""
        return replace(self, contexts=reference)

    def refusal(self, task: Task) -> str:
        """Needs a tree ensemble; where some decision or plan is enough, a list or bounds of all."""
        reason, name = TreeTask.refusal(task), type(task.rules.problem).__name__
        wish, some = task.rules.wish, Quantifier.SOME in task.rules.criterion.multiples
        if reason or not (some or wish is not None) or self._lists(task):
            return reason
        unbounded = RegretBounds.refusal(task)
        if not unbounded:
            return ""
        many = f"decisions of {name}" if wish is None else "plans that grant the wish"
        return f"the {many} are more than {self.max_decisions} or cannot be listed, and {unbounded}"

    def _lists(self, task: Task) -> bool:
        """Whether decisions, or the plans of a wish, are few enough for a search of each.

        Under several predictors, of each choice of a decision for each of them.
        """
        wish = task.rules.wish
        among = task.rules.problem if wish is None else wish.plans
        listed = among.decisions(self.max_decisions)
        further = () if task.variation is None else task.variation.predictors
        return listed is not None and len(listed) ** (1 + len(further)) <= self.max_decisions

    def _row_kind(self, task: Task) -> type[TreeRow]:
        """How a row is searched."""
        from cfopt.search.tree_regret import RegretRow
        from cfopt.search.tree_row import TreeRow
        from cfopt.search.tree_unlisted_wish import UnlistedWishRow
        from cfopt.search.tree_wish import WishRow

        if task.rules.wish is not None:
            return WishRow if self._lists(task) else UnlistedWishRow
        some = Quantifier.SOME in task.rules.criterion.multiples
        return RegretRow if some and not self._lists(task) else TreeRow

    def steps(self, task: Task) -> Iterator[Progress]:
        """One row after the other, or as many at once as there are threads."""
        require("TreeCells", "trees", "numba")
        from cfopt.trees.layout import layout_of
        from cfopt.trees.warm_up import warm_up

        self.check(task)
        warm_up()
        model = TreeTask(task)
        layout = layout_of(model.ensemble, model.groups)
        end = task.rules.problem.deadline
        proven = task.proven()
        known = self._judged(proven)

        threads = torch.get_num_threads() if self.threads is None else self.threads
        kind = self._row_kind(task)
        at_work: dict[int, TreeRow] = {}
        stopped = Event()

        def run(row: int) -> Generator[None, None, Points]:
            now = clock.now()
            share = (end - now) / max(1.0, (len(task) - row) / threads)
            deadline = now + min(share, self.seconds_a_row)
            starts = self._starts(proven[task.row_numbers[row : row + 1]], known)
            one = at_work[row] = kind(model, row, layout, self.max_decisions)
            one.stopped = stopped
            try:
                return (yield from one.run(deadline, starts))
            finally:
                del at_work[row]

        step = done = 0
        with closing(_in_threads(run, len(task), threads, stopped)) as parts:
            for points in parts:
                step, done = step + 1, done + (points is not None)
                moving = None if points is not None else self._moving(model, at_work)
                yield Progress(step, len(task) - done, len(task), points, moving)

    @staticmethod
    def _moving(model: TreeTask, at_work: dict[int, TreeRow]) -> Moving | None:
        """The best contexts so far of rows that are under way."""
        found = {row: one.x for row, one in [*at_work.items()] if one.best is not None}
        if not found:
            return None
        origin = model.space.origin
        rows = torch.tensor([*found], device=origin.device)
        return Moving(rows, model.contexts(np.stack([*found.values()])))

    def _judged(self, task: Task) -> JudgedReferences | None:
        """The known contexts, solved once for all rows."""
        if self.contexts is None:
            return None
        contexts = self.contexts.to(task.space.origin)
        return JudgedReferences(task, contexts[contexts.flatten(1).isfinite().all(1)])

    @staticmethod
    def _starts(task: Task, known: JudgedReferences | None) -> Iterator[Array]:
        """The known contexts that seem valid for a task of one row, the nearest first, `(p,)`."""
        if known is not None:
            for k in nearest_first(task, known):
                yield known.contexts[k].flatten().double().cpu().numpy()


def _in_threads(
    run: Callable[[int], Generator[None, None, Points]], rows: int, threads: int, stopped: Event
) -> Generator[Points | None]:
    """The rows in order, and None every now and then while nothing is done.

    One by one until they have taken a while, in this thread, since another one would take longer to
    begin than many a row. Then as many at once as may be: compiled functions run beside each other,
    Python does not. If nobody waits for them any more, they are stopped.
    """
    left = deque(run(row) for row in range(rows))
    end = clock.now() + _QUICK
    while left and (points := _until(left[0], end)) is not None:
        left.popleft()
        yield points
    if not left:
        return
    waiting = deque[Future[Points | None]]()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while left or waiting:
                while left:
                    waiting.append(pool.submit(_until, left.popleft(), math.inf))
                if wait([waiting[0]], _PULSE).done:
                    yield waiting.popleft().result()
                else:
                    yield None
        finally:
            stopped.set()
            for one in waiting:
                one.cancel()


def _until(work: Generator[None, None, Points], end: float) -> Points | None:
    """What a row ends with; None if that takes beyond a moment of the clock."""
    while not is_over(end):
        try:
            next(work)
        except StopIteration as ended:
            points: Points = ended.value
            return points
    return None
