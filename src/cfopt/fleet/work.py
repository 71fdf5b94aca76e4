"""Rows to explain and how, cut into parts that depend on the question and the input alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import torch

from cfopt.engine.progress import Progress
from cfopt.explaining.explain import answer
from cfopt.explaining.pose import to_try
from cfopt.explaining.remedy import remedies
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question import Question
from cfopt.result.explanation import Explanation
from cfopt.storage.watched import Watched

#: Rows explained at once, at most: of vectors, of vectors with a time limit, and of images. What a
#: round of a search does for all rows takes as long for 256 vectors as for eight times as many.
_VECTORS, _LIMITED, _IMAGES = 2048, 256, 16
#: Rows of the first part, rows or batches that make a part, rows that are not divided further at
#: the end, and the most parts of a run.
_FIRST, _ROWS, _BATCHES, _LAST, _PARTS = 16, 2048, 4, 256, 20_000
#: Called with each report of a search.
OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Asked:
    """Some rows: their contexts, and what is asked of them."""

    contexts: Contexts
    question: Question


class Work(ABC):
    """All that a run explains: rows by their numbers, read when they are needed.

    Arguments:
        pipeline: predictor and problem.
        settings: all that results depend on, as JSON can hold it, digests of files included.
        files: what it is made from, as far as these are files.
        batch: rows to explain at once, at most; None for a default.
        part: rows that are kept together in one file, at most; None for a default.
        title: what the report is called.
        notes: what a user may want to know before it starts.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        settings: dict[str, Any],
        *,
        files: Watched | None = None,
        batch: int | None = None,
        part: int | None = None,
        title: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.pipeline, self.settings, self.title, self.notes = pipeline, settings, title, notes
        self.files = Watched({}) if files is None else files
        self._batch, self._part = batch, part
        self._read: tuple[range, Asked] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, rows: range) -> Asked:
        """Some rows, and what is asked of them; they are numbered from 0, without a gap."""

    def origin(self) -> dict[str, Any]:
        """Where the work comes from."""
        return {}

    def identity(self) -> dict[str, Any]:
        """What a manifest says besides, by which a finished run is recognised."""
        return {}

    def described(self) -> dict[str, str]:
        """What a reader of the report may want to know about the run."""
        return {}

    @property
    def pictures(self) -> int:
        """How many rows are drawn, at most."""
        return 0

    @property
    def measured(self) -> int:
        """Of how many answers the measures of the field are taken, at most."""
        return 0

    @property
    def threads(self) -> int | None:
        """How many threads a run in one process uses; None for a default."""
        return None

    @cached_property
    def first(self) -> Asked:
        """The first row, which stands for what all rows share."""
        return self.read(range(min(1, len(self))))

    @property
    def batch(self) -> int:
        """Rows that are explained at once, at most."""
        if self._batch is not None:
            return self._batch
        if self.first.contexts.x.ndim > 2:
            return _IMAGES
        return _VECTORS if self.first.question.time_limit is None else _LIMITED

    @property
    def usual_part(self) -> int:
        """Rows that are kept together, at most, where nobody has said how many."""
        return max(self.batch, min(_ROWS, _BATCHES * self.batch))

    @cached_property
    def parts(self) -> list[range]:
        """Which rows are kept together.

        Numbers in a batch are rounded a little differently than alone. So parts, and batches within
        them, depend on nothing but the number of rows and the settings: whoever explains a part
        finds the same, to the last digit. They grow, so that the first results come soon, and
        shrink at the end, so that no worker waits long for the last one.
        """
        count, batch = len(self), self.batch
        fewest = -(-count // (_PARTS * batch)) * batch
        most = self._part or max(self.usual_part, fewest)
        return list(_growing(count, most))

    def batches(self, rows: range) -> Iterator[range]:
        """The batches of a part."""
        for start in range(rows.start, rows.stop, self.batch):
            yield range(start, min(start + self.batch, rows.stop))

    def load(self, rows: range) -> Asked:
        """Read some rows; those within them are then at hand."""
        if self._read is None or self._read[0] != rows:
            self._read = rows, self.read(rows)
        return self._read[1]

    def rows(self, rows: range) -> Asked:
        """Some rows, from those at hand if they are among them."""
        if self._read is None or not _within(rows, self._read[0]):
            return self.read(rows)
        there, asked = self._read
        index = torch.arange(rows.start - there.start, rows.stop - there.start)
        labels = asked.contexts.labels
        picked = None if labels is None else tuple(labels[i] for i in index.tolist())
        contexts = replace(asked.contexts, x=asked.contexts.x[index], labels=picked)
        return Asked(contexts, asked.question[index])

    def explain(self, rows: range, on_progress: OnProgress | None = None) -> Explanation:
        """Explain some rows; of those that limits make impossible, say what would help."""
        return remedies(self._ask(self.rows(rows), on_progress), self.pipeline)

    def trial(self, rows: range) -> Explanation:
        """Try everything but the search on some rows: what raises here would do so later."""
        asked = self.rows(rows)
        found = self._ask(Asked(asked.contexts, to_try(asked.question)))
        # As it was asked, also where it was only tried.
        own = {name: getattr(asked.question, name) for name in ("search", "plausibility")}
        return replace(found, asked=replace(found.asked, **own))

    def _ask(self, asked: Asked, on_progress: OnProgress | None = None) -> Explanation:
        return answer(asked.contexts, self.pipeline, asked.question, on_progress)


class Recipe(Protocol):
    """What a process needs to know to do some work: small, and picklable."""

    def open(self) -> Work:
        """Load what is needed."""
        ...


def _within(rows: range, others: range) -> bool:
    return others.start <= rows.start and rows.stop <= others.stop


def _growing(count: int, most: int) -> Iterator[range]:
    start, size = 0, min(_FIRST, most)
    while start < count:
        left = count - start
        stop = start + min(size, max(left // 2, _LAST), left)
        yield range(start, stop)
        start, size = stop, min(2 * size, most)
