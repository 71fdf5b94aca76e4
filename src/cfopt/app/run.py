"""A run: explain what is not explained yet, keep every batch, and write the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cfopt.app.checkpoint import each_alone, read_part, write_part
from cfopt.app.config import Config
from cfopt.app.job import Job, placed
from cfopt.app.results import write_results
from cfopt.engine.progress import Progress
from cfopt.errors import InputError, StorageError
from cfopt.explaining.remedy import remedies
from cfopt.result.explanation import Explanation
from cfopt.running.folder import claim
from cfopt.running.heartbeat import Heartbeat
from cfopt.running.pace import Display, Pace, duration
from cfopt.running.threads import suited_threads

KIND = "a run of cfopt explain"
#: Bytes that results may take, for each number in them: parts, Parquet, JSON and report.
_BYTES, _AT_LEAST = 60, 20_000_000
#: Rows on which everything is tried before the run.
_TRIED = 4
#: Seconds between two lines where there is no terminal.
_EVERY = 5.0


def run(work: Job, folder: Path, console: Console) -> Explanation:
    """Explain all rows that are not explained yet, and write the results of all.

    A batch is a file, written whole: a run that was stopped or killed resumes with what is there.

    Arguments:
        work: what to explain.
        folder: where everything is written; one that holds another run is refused.
        console: where to show progress: a bar in a terminal, else lines.
    """
    with suited_threads(work.pipeline, work.config.tables.run.threads):
        with Heartbeat(console, lambda: "Trying the first rows."):
            try_out(work)
        claim(folder, work.settings, kind=KIND, room=room_for(work))
        return _Run(work, folder, console).go()


def try_out(work: Job) -> Explanation:
    """Try the first rows, before anything is written; raise InputError if all of them fail."""
    rows = range(min(_TRIED, len(work)))
    with placed(work.config):
        try:
            return work.trial(rows)
        except InputError:  # the question itself cannot be posed
            raise
        # Any: the user's models run here. If it is one row's fault, the others are still explained.
        except (Exception, SystemExit):
            found, failed = each_alone(work, rows, work.trial)
            if failed == len(rows):
                raise
            return found


class _Run:
    """One pass over the batches that are not done."""

    def __init__(self, work: Job, folder: Path, console: Console) -> None:
        self.work, self.folder, self.parts = work, folder, folder / "parts"
        self.to_do = [rows for rows in work.batches if not part_file(folder, rows).exists()]
        # Read now: damage is reported before hours are spent.
        self._read([rows for rows in work.batches if rows not in self.to_do])
        sizes = [len(rows) for rows in self.to_do]
        self.pace = Pace([float(size) for size in sizes])
        self.display = Display(console, self.pace, sum(sizes), noun="row", rated=True, every=_EVERY)

    def go(self) -> Explanation:
        """Do the batches in their order, then write the results of all."""
        try:
            self.parts.mkdir(exist_ok=True)
            with self.display:
                if len(self.to_do) < len(self.work.batches):
                    self.display.say(f"{self._done()} of {len(self.work)} rows are already done.")
                for note in self.work.notes:
                    self.display.say(note)
                for rows in self.to_do:
                    self._do(rows)
                found = self._read(self.work.batches)
                explanation = Explanation.concat([part for part, _ in found])
                self.display.started("limits that stand in the way")
                explanation = remedies(explanation, self.work.pipeline)
            seconds = sum(s for _, s in found)
            write_results(explanation, self.work, self.folder, seconds, self.display.console)
        except KeyboardInterrupt:
            self.display.say(f"Stopped. {self._kept()}")
            raise
        except (StorageError, OSError) as error:
            raise StorageError(f"{error} {self._kept()}") from error
        return explanation

    def _do(self, rows: range) -> None:
        self.display.started(f"rows {rows.start} to {rows.stop - 1}")
        start = time.perf_counter()

        def report(progress: Progress) -> None:
            done = 1 - progress.running / max(progress.total, 1)
            self.pace.moved(len(rows) * min(max(done, 0.0), 1.0))
            self.display.moved()

        try:
            found = self.work.explain(rows, report)
        # Any: the user's models and solvers run here, and one row must not stop the others.
        except (Exception, SystemExit):
            found, _ = each_alone(self.work, rows, self.work.explain)
        seconds = time.perf_counter() - start
        write_part(part_file(self.folder, rows), found, seconds)
        self.pace.finished(len(rows))
        name = f"rows {rows.start} to {rows.stop - 1}"
        self.display.finished(name, seconds, len(rows))

    def _read(self, batches: Sequence[range]) -> list[tuple[Explanation, float]]:
        return [read_part(part_file(self.folder, rows), self.work, rows) for rows in batches]

    def _done(self) -> int:
        return sum(len(rows) for rows in self.work.batches if part_file(self.folder, rows).exists())

    def _kept(self) -> str:
        """What is not lost, and how to resume."""
        left = f" (about {duration(self.pace.left)} left)" if self.display.count else ""
        return (
            f"{self._done()} of {len(self.work)} rows are done and kept in {self.folder}; the same "
            f"command resumes{left}."
        )


def part_file(folder: Path, rows: range) -> Path:
    """Where a batch of a run is kept."""
    return folder / "parts" / f"rows-{rows.start:07}.safetensors"


def room_for(work: Job) -> int:
    """About the most bytes that the results take."""
    problem = work.pipeline.problem
    numbers = 3 * work.contexts.x[0].numel() + 3 * problem.num_columns + 2 * problem.num_costs
    return _AT_LEAST + _BYTES * numbers * len(work)


def results_folder(config: Config, out: Path | None) -> Path:
    """Where results go: as the command says, else as configured."""
    folder = config.folder if out is None else out
    if folder.resolve() == config.path.parent.resolve():
        raise InputError(f"{folder} holds the configuration. Pass a folder of its own with --out.")
    return folder
