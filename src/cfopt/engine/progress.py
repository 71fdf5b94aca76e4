"""What a search hands over: its progress, and the points in which rows ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch, are_all

if TYPE_CHECKING:
    from cfopt.exact.certificate import Certificate


@dataclass(frozen=True)
class Points(Batch):
    """The contexts in which a search ended, for some rows of its task.

    Arguments:
        rows: the rows of the task that these belong to, `(R,)`.
        x: the best valid context seen, or the least violating one, `(R, ...)`.
        found: whether the search saw `x` satisfy the criterion, `(R,)`.
        steps: steps or rounds taken, `(R,)`.
        solves: solver calls made, `(R,)`.
        passes: forward passes and Jacobian rows of the predictor, `(R,)`.
        notes: why a row ended early, or "", `(R,)`.
        methods: what found x, or was tried in vain, `(R,)`.
        certificates: what proves how near an explanation can be, or that there is none, `(R,)`.
        traces: loss, h and lambda of each step, `(steps, 3)` a row; empty unless asked for.
    """

    rows: Tensor = field(metadata=ROWS)
    x: Tensor = field(metadata=ROWS)
    found: Tensor = field(metadata=ROWS)
    steps: Tensor = field(metadata=ROWS)
    solves: Tensor = field(metadata=ROWS)
    passes: Tensor = field(metadata=ROWS)
    notes: tuple[str, ...] = field(default=(), metadata=ROWS)
    methods: tuple[str, ...] = field(default=(), metadata=ROWS)
    certificates: tuple[Certificate[Any] | None, ...] = field(default=(), metadata=ROWS)
    traces: tuple[Tensor, ...] = field(default=(), metadata=ROWS)

    def __post_init__(self) -> None:
        for name, nothing in (("notes", ""), ("methods", ""), ("certificates", None)):
            if not getattr(self, name):
                object.__setattr__(self, name, (nothing,) * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def all_traces(self) -> tuple[Tensor, ...]:
        """A trace for each row, empty ones where none were kept."""
        return self.traces or (torch.empty((0, 3), dtype=self.x.dtype),) * len(self)

    @staticmethod
    def gather(parts: list[Points]) -> Points:
        """Join finished rows and put them back into the order of the task."""
        if any(part.traces for part in parts):
            parts = [replace(part, traces=part.all_traces()) for part in parts]
        joined = Points.concat(parts)
        return joined if are_all(joined.rows, len(joined)) else joined[joined.rows.argsort()]


@dataclass(frozen=True)
class Moving:
    """Where rows of a running search are; nothing is known of these points.

    Arguments:
        rows: the rows of the task that these belong to, `(R,)`; one that climbs from several starts
            has several places.
        at: contexts, or codes where those are searched, `(R, ...)`.
    """

    rows: Tensor
    at: Tensor

    def of(self, rows: Tensor) -> Moving:
        """The same, numbered as in a larger task, in which row k is `rows[k]`."""
        return Moving(rows[self.rows], self.at)


@dataclass(frozen=True)
class Progress:
    """One report of a running search: how far it is, and the rows that have just finished.

    Arguments:
        step: counts up, in a measure of the search's own.
        running: how many rows are not finished.
        total: how many rows there are.
        finished: the rows that have just finished.
        moving: some of the rows that are under way, for display.
    """

    step: int
    running: int
    total: int
    finished: Points | None = None
    moving: Moving | None = None

    def of(self, rows: Tensor, running: int, total: int) -> Progress:
        """The same in a larger task, in which row k is `rows[k]`."""
        done, moving = self.finished, self.moving
        finished = None if done is None else replace(done, rows=rows[done.rows])
        return Progress(
            self.step, running, total, finished, None if moving is None else moving.of(rows)
        )
