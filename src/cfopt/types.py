"""The small shared vocabulary: senses, statuses, and what a search hands over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.errors import InputError

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


class Sense(StrEnum):
    """Whether the problem minimises or maximises `<costs, decision>`."""

    MIN = "min"
    MAX = "max"

    @classmethod
    def _missing_(cls, value: object) -> Sense:
        raise InputError(f'sense needs to be "min" or "max", got {value!r}.')

    @property
    def sign(self) -> float:
        """The factor that turns costs into those of a minimisation."""
        return 1.0 if self is Sense.MIN else -1.0


class Status(StrEnum):
    """How the explanation of one row ended."""

    VALID = "valid"
    ALREADY_VALID = "already valid"
    BEST_EFFORT = "best effort"
    REJECTED = "rejected"

    @property
    def is_valid(self) -> bool:
        """Whether the row's context was verified to explain."""
        return self in (Status.VALID, Status.ALREADY_VALID)


@dataclass(frozen=True)
class Points:
    """The contexts in which a search ended, for some rows of its task.

    Arguments:
        rows: which rows of the task these are, `(R,)`.
        x: the best valid context seen, or the least violating one, `(R, ...)`.
        found: whether the search saw `x` satisfy the criterion, `(R,)`.
        steps: steps taken, `(R,)`.
        solves: solver calls made, `(R,)`.
        notes: why a row ended early, or "", `(R,)`.
        traces: loss, h and lambda of each step, `(steps, 3)` a row; empty unless asked for.
    """

    rows: Tensor
    x: Tensor
    found: Tensor
    steps: Tensor
    solves: Tensor
    notes: tuple[str, ...]
    traces: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def gather(parts: list[Points]) -> Points:
        """Join finished rows and put them back into the order of the task."""
        rows = torch.cat([part.rows for part in parts])
        order = rows.argsort()
        notes = [note for part in parts for note in part.notes]
        traces = [trace for part in parts for trace in part.traces]
        return Points(
            rows=rows[order],
            x=torch.cat([part.x for part in parts])[order],
            found=torch.cat([part.found for part in parts])[order],
            steps=torch.cat([part.steps for part in parts])[order],
            solves=torch.cat([part.solves for part in parts])[order],
            notes=tuple(notes[i] for i in order.tolist()),
            traces=tuple(traces[i] for i in order.tolist()) if traces else (),
        )


@dataclass(frozen=True)
class Progress:
    """One report of a running search: where it is, and the rows that have just finished."""

    step: int
    running: int
    total: int
    finished: Points | None = None
