"""A process that explains what it is told to, and the one that gives the orders and watches it."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cfopt import clock
from cfopt.errors import ChangedError, InputError, StorageError, in_words
from cfopt.fleet.answers import LETHAL
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.fleet.work import Recipe
from cfopt.storage.digests import digest_json

#: Seconds beyond the time limit for which a process may give no sign of life.
GRACE = 30.0
#: How often something may end a process before it is held to be the cause.
DEATHS = 2
#: Seconds between two looks at processes that say nothing.
LOOK = 1.0
#: What libraries read to know how many threads to use.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_SPAWN = get_context("spawn")


@dataclass(frozen=True)
class Patience:
    """For how long a process may be in one call of a solver or a model.

    Arguments:
        limit: the time limit of a batch; None for no end.
        now: the present moment, in seconds.
    """

    limit: float | None
    now: Callable[[], float] = time.monotonic

    def is_over(self, since: float) -> bool:
        """Whether somebody who has been silent since then is given up."""
        return self.limit is not None and self.now() - since > self.limit + GRACE

    @property
    def words(self) -> str:
        """What is said of a row that is given up."""
        return (
            f"a call of the solver or the predictor went on for {GRACE:g} seconds beyond the time "
            f"limit of {self.limit:g}, and its process was ended"
        )


def _serve(recipe: Recipe, path: Path, line: Connection, beats: Any) -> None:
    """What a worker does: load the models once, then explain the parts that it is given."""

    def beat() -> None:
        beats.value += 1

    clock.heard_by(beat)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who gave the orders
    import torch

    torch.set_num_threads(1)
    try:
        work = recipe.open()
        folder = RunFolder(path, work)
        line.send(("ready", digest_json(work.settings)))
    except ChangedError as error:
        line.send(("changed", str(error)))
        return
    # Any: the user's models are loaded here.
    except (Exception, SystemExit) as error:
        line.send(("unable", in_words(error)))
        return
    while True:
        try:
            order = line.recv()
        except EOFError:  # whoever gave orders is gone
            return
        kind, number, lethal = order
        try:
            if kind == "part":
                seconds = keep_part(folder, number, lethal, lambda n: line.send(("counted", n)))
                line.send(("ended", seconds))
            else:
                _touch(work.trial if kind == "trial" else work.explain, number)
                line.send(("ended", 0.0))
        except (StorageError, OSError) as error:
            line.send(("full", str(error)))
        except ChangedError as error:
            line.send(("changed", str(error)))
        # Any: the part's own fault is reported, and others may still be served.
        except Exception as error:
            line.send(("failed", in_words(error)))


def _touch(ask: Callable[[range], Any], row: int) -> None:
    """Explain or try a row alone, whatever comes of it."""
    try:
        ask(range(row, row + 1))
    # Any: only whether the process survives is asked.
    except (Exception, SystemExit):
        return


@dataclass(eq=False)
class Worker:
    """A process, the connection to it, and what it was asked to do.

    Arguments:
        process: the process.
        line: the connection.
        beats: how often it has read the clock.
        patience: for how long it may not do so while it works.
    """

    process: BaseProcess
    line: Connection
    beats: Any
    patience: Patience
    ready: bool = False
    part: int | None = None
    counted: int = 0
    _heard: int = -1
    _since: float = math.inf

    def give(self, kind: str, number: int, lethal: Mapping[int, str] | None = None) -> None:
        """Have a part or a row explained, or a row tried."""
        self.part, self.counted = number, 0
        # Rows are read first, which may take long.
        self._heard, self._since = self.beats.value, math.inf
        self.line.send((kind, number, lethal or {}))

    def hangs(self) -> bool:
        """Whether it is in a call that does not end, as far as that has been seen."""
        beats = self.beats.value
        if self.part is None or beats != self._heard:
            self._heard, self._since = beats, self.patience.now()
        return self.part is not None and self.patience.is_over(self._since)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        # Killed first: one that finds nobody to talk to would complain.
        self.process.kill()
        self.process.join()
        self.line.close()


def start_worker(recipe: Recipe, path: Path, patience: Patience) -> Worker:
    """A process that loads the models and waits for orders."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ |= dict.fromkeys(_THREADS, "1")  # read when a process loads the libraries
    try:
        here, there = _SPAWN.Pipe()
        beats = _SPAWN.RawValue(ctypes.c_uint64, 0)
        process = _SPAWN.Process(target=_serve, args=(recipe, path, there, beats), daemon=True)
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    there.close()
    return Worker(process, here, beats, patience)


def find_lethal(
    recipe: Recipe, path: Path, rows: range, patience: Patience, kind: str = "row"
) -> dict[int, str]:
    """The rows that end a process or hold it for ever, and what is said of each.

    Arguments:
        recipe: what a process needs to know to do the work.
        path: the folder of the run.
        rows: the rows in question.
        patience: for how long a process may give no sign of life.
        kind: "row" to have rows explained, "trial" to have everything but the search tried.
    """
    found: dict[int, str] = {}
    deaths: Counter[int] = Counter()
    worker = start_worker(recipe, path, patience)
    to_do = deque(rows)
    try:
        while to_do:
            row = to_do[0]
            end = _end(worker, kind, row)
            if not end:
                to_do.popleft()
                continue
            worker.end()
            deaths[row] += 1
            if end != LETHAL or deaths[row] == DEATHS:  # once may be another's doing
                found[row] = end
                to_do.popleft()
            worker = start_worker(recipe, path, patience)
    finally:
        worker.end()
    return found


def _end(worker: Worker, kind: str, row: int) -> str:
    """What becomes of a process that is given a row alone; "" if it is still there."""
    try:
        while not worker.ready:
            check_said(*worker.line.recv())
            worker.ready = True
        worker.give(kind, row)
        while not worker.line.poll(LOOK):
            if worker.hangs():
                return worker.patience.words
        worker.line.recv()
    except (EOFError, OSError):
        return LETHAL
    return ""


def check_said(kind: str, said: Any) -> None:
    """Raise what a worker has said that ends the run."""
    if kind == "unable":
        raise InputError(f"A worker could not load the pipeline: {said}")
    if kind == "full":
        raise StorageError(said)
    if kind == "changed":
        raise ChangedError(said)
