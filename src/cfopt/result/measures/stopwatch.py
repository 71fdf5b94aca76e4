"""When each row of a search was finished."""

from __future__ import annotations

import time

import numpy as np

from cfopt._typing import Array
from cfopt.engine.progress import Progress


class Stopwatch:
    """Notes when rows are finished: `explain(..., on_progress=watch)`.

    It runs from the moment in which it is made. A row that is searched for several times, as for
    further options, is finished when the last of these searches is.
    """

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._finished: dict[int, float] = {}

    def __call__(self, progress: Progress) -> None:
        """Take note of a report."""
        if progress.finished is not None:
            now = time.perf_counter() - self._start
            self._finished |= dict.fromkeys(progress.finished.rows.tolist(), now)

    def seconds(self, rows: int) -> Array:
        """The seconds after which each of the rows was finished: `(rows,)`.

        NaN for those that needed no search.
        """
        known = np.full(rows, np.nan)
        for row, seconds in self._finished.items():
            known[row] = seconds
        return known
