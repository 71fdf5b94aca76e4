"""Parts explained by processes on this machine, each with one thread and models of its own."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from cfopt.errors import CfoptError, InputError
from cfopt.fleet.engine import Engine, Lethal, Listener
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.work import Recipe
from cfopt.fleet.worker import (
    DEATHS,
    LOOK,
    Patience,
    Worker,
    check_said,
    find_lethal,
    start_worker,
)
from cfopt.storage.digests import digest_json

#: How often a part that raises an error is tried.
_TRIES = 2


@dataclass(frozen=True)
class Processes(Engine):
    """Processes on this machine.

    A process that ends is replaced, and its part begun again; one in a call that does not end is
    ended. A part that ends processes, or holds one for ever, is looked at row by row: the rows that
    do it alone are reported, and the others explained.

    Arguments:
        recipe: what processes need to know to do the work.
        count: how many.
        patience: for how long a process may be in one call.
    """

    recipe: Recipe
    count: int
    patience: Patience

    def explain(self, folder: RunFolder, parts: Mapping[int, Lethal], listener: Listener) -> None:
        """Explain parts and keep them."""
        run = _Run(self.recipe, folder, parts, listener, self.patience)
        try:
            run.go(min(self.count, len(parts)))
        finally:
            for worker in run.workers:
                worker.end()


@dataclass(eq=False)
class _Run:
    recipe: Recipe
    folder: RunFolder
    parts: Mapping[int, Lethal]
    listener: Listener
    patience: Patience
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lethal = {part: dict(rows) for part, rows in self.parts.items()}
        self.to_do, self.left = deque(self.parts), set(self.parts)
        self.deaths: Counter[int] = Counter()
        self.tries: Counter[int] = Counter()
        self.lost_at_start = 0
        self.looked_at: set[int] = set()

    def _start(self) -> Worker:
        return start_worker(self.recipe, self.folder.path, self.patience)

    def go(self, count: int) -> None:
        self.workers = [self._start() for _ in range(count)]
        while self.left:
            lines = {worker.line: worker for worker in self.workers}
            ends = {worker.process.sentinel: worker for worker in self.workers}
            for ready in wait([*lines, *ends], LOOK):
                worker = lines.get(ready) or ends[ready]  # type: ignore[call-overload, index]
                if worker in self.workers:
                    self._hear(worker)
            for worker in [one for one in self.workers if one.hangs()]:
                self._bury(worker, hung=True)

    def _hear(self, worker: Worker) -> None:
        try:
            said = worker.line.recv() if worker.line.poll() or worker.process.is_alive() else None
        except (EOFError, OSError):
            said = None
        if said is None:
            self._bury(worker)
            return
        kind, value = said
        check_said(kind, value)
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

    def _give(self, worker: Worker) -> None:
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

    def _bury(self, worker: Worker, *, hung: bool = False) -> None:
        """A process has ended, or hangs and is ended: its part is begun again by another."""
        worker.end()
        self.workers.remove(worker)
        part = worker.part
        if part is None:
            self.lost_at_start += not worker.ready
            if self.lost_at_start > DEATHS:
                raise CfoptError(
                    "Workers end before they have loaded the pipeline. Run with --workers 1 to see "
                    "why."
                )
        else:
            self.listener.counted(part, -worker.counted)
            self.deaths[part] += 1
            self._again(part, hung)
        if self.to_do or self.left:
            self.workers.append(self._start())
        # Others may be idle.
        for other in self.workers:
            if other.ready and other.part is None:
                self._give(other)

    def _again(self, part: int, hung: bool) -> None:
        """Have a part begun again; rows that end a process alone are found first, or none is."""
        if hung or self.deaths[part] % DEATHS == 0:
            if part in self.looked_at:
                how = f"are silent: {self.patience.words}" if hung else "end their process"
                advice = "a smaller batch in [run] may help"
                self.left.discard(part)
                self.listener.failed(part, f"its rows {how}, and none does so alone; {advice}")
                return
            rows = self.folder.work.parts[part]
            self.lethal[part] |= find_lethal(self.recipe, self.folder.path, rows, self.patience)
            self.folder.note(part, "tried", lethal=self.lethal[part])
            self.looked_at.add(part)
        self.to_do.append(part)


def _known(part: int | None) -> int:
    assert part is not None
    return part
