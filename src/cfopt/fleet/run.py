"""A run: have the parts explained that are not there yet, then write what is made of all."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from cfopt.errors import CfoptError, InputError, StorageError
from cfopt.fleet.engine import Engine, InThisProcess, Lethal
from cfopt.fleet.finish import finish
from cfopt.fleet.finished import MANIFEST, SUCCESS
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.processes import Processes
from cfopt.fleet.work import Recipe, Work
from cfopt.fleet.worker import Patience, find_lethal
from cfopt.names import counted
from cfopt.running.folder import claim
from cfopt.running.lock import finishing, locked
from cfopt.running.pace import Display, Pace, duration
from cfopt.running.threads import suited_threads
from cfopt.storage.files import write_whole

KIND = "a run of cfopt explain"
#: The file that says where a run comes from; no result depends on it.
ORIGIN = "origin.json"
#: Bytes that results may take, for each number in them: parts, JSON lines and report.
_BYTES, _AT_LEAST = 40, 20_000_000
#: Seconds between two lines where there is no terminal.
_EVERY = 5.0
#: How often a part may have been begun in vain before its rows are looked at one by one.
_IN_VAIN = 3


@dataclass(frozen=True)
class Orders:
    """How a run is done; its results do not depend on it.

    Arguments:
        workers: how many processes explain; None for as many as there are cores, where it is worth
            while, and for one at least where time is limited; 1 for this process alone.
        shard: which of how many shards, from 1; None for all parts.
        engine: "processes" on this machine, or "dask".
        scheduler: the address of a Dask scheduler; None for a cluster on this machine.
    """

    workers: int | None = None
    shard: tuple[int, int] | None = None
    engine: str = "processes"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("processes", "dask"):
            raise InputError(f"--engine needs processes or dask, got {self.engine!r}.")
        if self.scheduler is not None and self.engine != "dask":
            raise InputError("--scheduler needs --engine dask.")
        if self.workers is not None and self.workers < 1:
            raise InputError(f"--workers needs a whole number from 1, got {self.workers}.")
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            first, count = self.shard
            raise InputError(f"--shard needs i/n with i from 1 to n, got {first}/{count}.")

    @classmethod
    def shard_of(cls, text: str | None) -> tuple[int, int] | None:
        """The shard that "i/n" means."""
        if text is None:
            return None
        first, _, count = text.partition("/")
        if not (first.strip().isdigit() and count.strip().isdigit()):
            raise InputError(f"--shard needs i/n, such as 3/16, got {text!r}.")
        return int(first), int(count)


def run(
    work: Work,
    recipe: Recipe,
    path: Path,
    console: Console,
    orders: Orders,
    held: Lethal = MappingProxyType({}),
) -> RunFolder:
    """Explain all parts that are not there yet and, once all are, write the results.

    A part is a file, written whole: a run that was stopped or killed resumes with what is there.

    Arguments:
        work: what to explain.
        recipe: how other processes load the same work.
        path: the folder of the run; one that holds another run is refused.
        console: where to show progress: a bar in a terminal, else lines.
        orders: the engine, the number of workers, and which parts to run.
        held: rows that are known to end or hold a process, and what is said of them.
    """
    claim(path, work.settings, kind=KIND, room=room_for(work))
    folder = RunFolder(path, work)
    with locked(path, orders.shard):
        write_whole(path / ORIGIN, json.dumps(work.origin()).encode())
        _Run(folder, recipe, console, orders, held).go()
    return folder


class _Run:
    """One pass over the parts that are not done."""

    def __init__(
        self, folder: RunFolder, recipe: Recipe, console: Console, orders: Orders, held: Lethal
    ) -> None:
        self.folder, self.work, self.recipe, self.orders = folder, folder.work, recipe, orders
        self.held = held
        folder.make()
        done = folder.done()
        folder.check(sorted(done))
        first, count = orders.shard or (1, 1)
        own = range(first - 1, len(self.work.parts), count)
        self.to_do = [k for k in own if k not in done]
        self.had = sum(len(self.work.parts[k]) for k in done)
        self.patience = Patience(self.work.first.question.time_limit)
        self.failures: dict[int, str] = {}
        self._begun = False
        sizes = [len(self.work.parts[k]) for k in self.to_do]
        self.pace = Pace([float(size) for size in sizes])
        self.display = Display(console, self.pace, sum(sizes), noun="row", rated=True, every=_EVERY)

    def go(self) -> None:
        try:
            with self.display:
                self._go()
            self._finish()
        except KeyboardInterrupt:
            self.display.say(f"Stopped. {self._kept()}")
            raise
        except (StorageError, OSError) as error:
            raise StorageError(f"{error} {self._kept()}") from error

    def _go(self) -> None:
        total = len(self.work)
        if self.had:
            self.display.say(f"{self.had:,} of {total:,} rows are already done.")
        for note in self.work.notes:
            self.display.say(note)
        if self.to_do:
            # What was made of fewer parts is no longer the whole.
            (self.folder.data / SUCCESS).unlink(missing_ok=True)
            with self._threads(engine := self._engine()):
                engine.explain(self.folder, self._careful(), self)
        if self.failures:
            part, reason = next(iter(self.failures.items()))
            rows = self.work.parts[part]
            raise CfoptError(
                f"{counted(len(self.failures), 'part')} could not be explained, such as that of "
                f"rows {rows.start} to {rows.stop - 1}: {reason}. {self._kept()}"
            )

    def _finish(self) -> None:
        missing = len(self.work.parts) - len(self.folder.done())
        if missing:
            self.display.say(
                f"This shard is done; {counted(missing, 'part')} of others are missing. The last "
                "shard writes the report."
            )
            return
        with finishing(self.folder.path) as mine:
            if mine:
                finish(self.folder, self.display.console)
            else:
                self.display.say("Another shard is writing the report.")

    def _engine(self) -> Engine:
        orders = self.orders
        if orders.engine == "dask":
            from cfopt.fleet.dask_engine import Dask

            return Dask(self.recipe, orders.scheduler, orders.workers, self.patience)
        rows = sum(len(self.work.parts[k]) for k in self.to_do)
        worth = max(1, rows // self.work.usual_part)  # a process takes some seconds to begin
        count = orders.workers or min(len(os.sched_getaffinity(0)), worth)
        # Nobody can end a call of its own: where time is limited another process does.
        alone = count == 1 and (orders.workers == 1 or self.patience.limit is None)
        return InThisProcess() if alone else Processes(self.recipe, count, self.patience)

    def _threads(self, engine: Engine) -> AbstractContextManager[None]:
        return (
            suited_threads(self.work.pipeline, self.work.threads)
            if isinstance(engine, InThisProcess)
            else nullcontext()
        )

    def _careful(self) -> dict[int, Lethal]:
        """The parts to do, with rows not to be touched: of parts that ended processes before."""
        noted = self.folder.noted()
        lethal: dict[int, Lethal] = {}
        for k in self.to_do:
            known = dict(noted.lethal.get(k, {}))
            known |= {row: self.held[row] for row in self.held if row in self.work.parts[k]}
            lethal[k] = known
            if noted.begun.get(k, 0) >= _IN_VAIN:
                self.display.say(f"{self._name(k).capitalize()} never ended: each is tried alone.")
                rows = self.work.parts[k]
                known |= find_lethal(self.recipe, self.folder.path, rows, self.patience)
                self.folder.note(k, "tried", lethal=known)
        return lethal

    def started(self, part: int) -> None:
        if not self._begun:
            self._begun = True
            self.pace.begin()  # processes have loaded their models
        self.display.started(self._name(part))

    def moved(self, rows: float) -> None:
        self.pace.moved(rows)
        self.display.moved()

    def counted(self, part: int, rows: int) -> None:
        self.pace.finished(rows)
        self.display.finished(self._name(part), self.pace.elapsed, rows)

    def failed(self, part: int, reason: str) -> None:
        self.failures[part] = reason
        self.pace.dropped(float(len(self.work.parts[part])))

    def _name(self, part: int) -> str:
        rows = self.work.parts[part]
        return f"rows {rows.start} to {rows.stop - 1}"

    def _kept(self) -> str:
        """What is not lost, and how to resume."""
        left = f" (about {duration(self.pace.left)} left)" if self.display.count else ""
        done = sum(len(self.work.parts[k]) for k in self.folder.done())
        return (
            f"{done:,} of {len(self.work):,} rows are done and kept in {self.folder.path}; the "
            f"same command resumes{left}."
        )


def any_settled(folder: RunFolder) -> bool:
    """Whether some row of a finished run has an answer, or a proof that there is none.

    True for a shard, whose other parts are not known.
    """
    if not (folder.data / SUCCESS).exists():
        return True
    manifest = json.loads((folder.data / MANIFEST).read_text(encoding="utf-8"))
    return bool(manifest["settled"])


def room_for(work: Work) -> int:
    """About the most bytes that the results take."""
    problem = work.pipeline.problem
    numbers = 3 * work.first.contexts.x[0].numel() + 3 * problem.num_columns + 2 * problem.num_costs
    return _AT_LEAST + _BYTES * numbers * len(work)
