"""Parts explained by processes on this machine, each with one thread and models of its own."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cfopt.errors import CfoptError, ChangedError, InputError, StorageError, in_words
from cfopt.fleet.engine import Engine, Listener
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.fleet.work import Recipe
from cfopt.storage.digests import digest_json

#: How often a part may end its process before its rows are looked at one by one, and then a row.
_DEATHS = 2
#: How often a part that raises an error is tried.
_TRIES = 2
#: What libraries read to know how many threads to use.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_SPAWN = get_context("spawn")


def _serve(recipe: Recipe, path: Path, line: Connection) -> None:
    """What a worker does: load the models once, then explain the parts that it is given."""
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
                _touch(work, number)
                line.send(("ended", 0.0))
        except (StorageError, OSError) as error:
            line.send(("full", str(error)))
        except ChangedError as error:
            line.send(("changed", str(error)))
        # Any: the part's own fault is reported, and others may still be served.
        except Exception as error:
            line.send(("failed", in_words(error)))


def _touch(work: Any, row: int) -> None:
    """Explain a row alone, whatever comes of it."""
    try:
        work.explain(range(row, row + 1))
    # Any: only whether the process survives is asked.
    except (Exception, SystemExit):
        return


@dataclass(eq=False)
class _Worker:
    """A process, the connection to it, and what it was asked to do."""

    process: BaseProcess
    line: Connection
    ready: bool = False
    part: int | None = None
    counted: int = 0

    def give(self, kind: str, number: int, lethal: frozenset[int] = frozenset()) -> None:
        self.part, self.counted = number, 0
        self.line.send((kind, number, lethal))

    def end(self) -> None:
        # Killed first: one that finds nobody to talk to would complain.
        self.process.kill()
        self.process.join()
        self.line.close()


def start_worker(recipe: Recipe, path: Path) -> _Worker:
    """A process that loads the models and waits for orders."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ |= dict.fromkeys(_THREADS, "1")  # read when a process loads the libraries
    try:
        here, there = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(recipe, path, there), daemon=True)
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    there.close()
    return _Worker(process, here)


@dataclass(frozen=True)
class Processes(Engine):
    """Processes on this machine.

    A process that ends is replaced, and its part begun again. A part that ends processes is looked
    at row by row: the rows that do it alone are reported, and the others explained.

    Arguments:
        recipe: what processes need to know to do the work.
        count: how many.
    """

    recipe: Recipe
    count: int

    def explain(
        self, folder: RunFolder, parts: Mapping[int, frozenset[int]], listener: Listener
    ) -> None:
        """Explain parts and keep them."""
        run = _Run(self.recipe, folder, parts, listener)
        try:
            run.go(min(self.count, len(parts)))
        finally:
            for worker in run.workers:
                worker.end()


@dataclass(eq=False)
class _Run:
    recipe: Recipe
    folder: RunFolder
    parts: Mapping[int, frozenset[int]]
    listener: Listener
    workers: list[_Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lethal = dict(self.parts)
        self.to_do, self.left = deque(self.parts), set(self.parts)
        self.deaths: Counter[int] = Counter()
        self.tries: Counter[int] = Counter()
        self.lost_at_start = 0

    def go(self, count: int) -> None:
        self.workers = [start_worker(self.recipe, self.folder.path) for _ in range(count)]
        while self.left:
            lines = {worker.line: worker for worker in self.workers}
            ends = {worker.process.sentinel: worker for worker in self.workers}
            for ready in wait([*lines, *ends]):
                worker = lines.get(ready) or ends[ready]  # type: ignore[call-overload, index]
                if worker in self.workers:
                    self._hear(worker)

    def _hear(self, worker: _Worker) -> None:
        try:
            said = worker.line.recv() if worker.line.poll() or worker.process.is_alive() else None
        except (EOFError, OSError):
            said = None
        if said is None:
            self._bury(worker)
            return
        kind, value = said
        _check(kind, value)
        if kind == "counted":
            worker.counted += value
            self.listener.counted(_known(worker.part), value)
            return
        if kind == "ready":
            if value != digest_json(self.folder.work.settings):
                raise InputError("A worker found other files or versions than this process.")
            worker.ready, self.lost_at_start = True, 0
        elif kind == "failed":
            self._failed(_known(worker.part), worker.counted, value)
        else:
            self.left.discard(_known(worker.part))
        worker.part = None
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        if self.to_do:
            part = self.to_do.popleft()
            self.listener.started(part)
            worker.give("part", part, self.lethal[part])

    def _failed(self, part: int, counted: int, reason: str) -> None:
        self.tries[part] += 1
        self.listener.counted(part, -counted)
        if self.tries[part] < _TRIES:
            self.to_do.append(part)
        else:
            self.left.discard(part)
            self.listener.failed(part, reason)

    def _bury(self, worker: _Worker) -> None:
        """A process has ended: its part is begun again by another."""
        worker.end()
        self.workers.remove(worker)
        part = worker.part
        if part is None:
            self.lost_at_start += not worker.ready
            if self.lost_at_start > _DEATHS:
                raise CfoptError(
                    "Workers end before they have loaded the pipeline. Run with --workers 1 to see "
                    "why."
                )
        else:
            self.listener.counted(part, -worker.counted)
            self.deaths[part] += 1
            if self.deaths[part] % _DEATHS == 0:
                rows = self.folder.work.parts[part]
                self.lethal[part] |= find_lethal(self.recipe, self.folder.path, rows)
                self.folder.note(part, "tried", lethal=sorted(self.lethal[part]))
            self.to_do.append(part)
        if self.to_do or self.left:
            self.workers.append(start_worker(self.recipe, self.folder.path))
        # Others may be idle.
        for other in self.workers:
            if other.ready and other.part is None:
                self._give(other)


def find_lethal(recipe: Recipe, path: Path, rows: range) -> frozenset[int]:
    """The rows that end a process that explains them, each time.

    Arguments:
        recipe: what a process needs to know to do the work.
        path: the folder of the run.
        rows: the rows in question.
    """
    found: set[int] = set()
    deaths: Counter[int] = Counter()
    worker = start_worker(recipe, path)
    to_do = deque(rows)
    try:
        while to_do:
            row = to_do[0]
            if _survives(worker, row):
                to_do.popleft()
                continue
            worker.end()
            deaths[row] += 1
            if deaths[row] == _DEATHS:  # once may be another's doing
                found.add(row)
                to_do.popleft()
            worker = start_worker(recipe, path)
    finally:
        worker.end()
    return frozenset(found)


def _survives(worker: _Worker, row: int) -> bool:
    """Whether a process is still there after explaining a row alone."""
    try:
        while not worker.ready:
            _check(*worker.line.recv())
            worker.ready = True
        worker.give("row", row)
        worker.line.recv()
    except (EOFError, OSError):
        return False
    return True


def _check(kind: str, said: Any) -> None:
    """Raise what a worker has said that ends the run."""
    if kind == "unable":
        raise InputError(f"A worker could not load the pipeline: {said}")
    if kind == "full":
        raise StorageError(said)
    if kind == "changed":
        raise ChangedError(said)


def _known(part: int | None) -> int:
    assert part is not None
    return part
