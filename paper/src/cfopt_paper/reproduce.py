"""Reproduce experiments of the paper: do their jobs, and write their files."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from rich.console import Console

from cfopt.errors import CfoptError, StorageError
from cfopt.running.lock import locked
from cfopt.running.pace import Display, Pace, duration
from cfopt_paper.checks import write_claims
from cfopt_paper.crew import crew, do_job
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job, in_order
from cfopt_paper.results import write_results
from cfopt_paper.study import Study

#: The fraction of the whole for which the jobs' own estimates are trusted as much as the clock.
_TRUST = 0.05
#: Errors of the file system that would stop every other job too.
_BROKEN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


def reproduce(
    experiments: Sequence[Experiment], study: Study, console: Console, workers: int = 1
) -> list[Path]:
    """Do the jobs of some experiments that are not done yet, and write the experiments' files.

    A job that fails stops only what depends on it: the others are done before CfoptError reports
    what could not be finished. A full disk ends the run at once, as StorageError. What is done is
    kept in any case, and not done again. Meanwhile the folder is locked against other runs.

    Arguments:
        experiments: such as `experiments_named(["all"])`.
        study: scale, seed, and the folder for everything.
        console: where to show progress: a bar in a terminal, else a line for each job.
        workers: the number of processes, each with one thread; 1 for this process alone.
    """
    with locked(study.folder):
        return _reproduce(_Run(experiments, study, console), workers)


def _reproduce(run: _Run, workers: int) -> list[Path]:
    try:
        with run.display:
            if workers > 1 and len(run.to_do) > 1:
                run.share(workers)
            else:
                run.go()
        run.written += write_claims(run.study.folder)
    except KeyboardInterrupt:
        run.display.say(f"Stopped. {run.kept()}")
        raise
    except (StorageError, OSError) as error:
        raise StorageError(f"{error} {run.kept()}") from error
    if run.unfinished:
        raise CfoptError(run.verdict()) from next(iter(run.failures.values()))
    return run.written


class _Run:
    """One attempt at the jobs that are not done."""

    def __init__(self, experiments: Sequence[Experiment], study: Study, console: Console) -> None:
        self.study = study
        self.jobs = {one: in_order(one.jobs(study)) for one in dict.fromkeys(experiments)}
        self.all = in_order(job for jobs in self.jobs.values() for job in jobs)
        self.to_do = [job for job in self.all if not study.is_done(job)]
        # Read now: a damaged result is reported before hours are spent.
        study.seconds([job for job in self.all if study.is_done(job)])
        self.costs = {job: job.seconds(study) for job in self.to_do}
        self.pace = Pace(list(self.costs.values()), trust=_TRUST)
        self.display = Display(console, self.pace, len(self.to_do))
        #: Why a job, or the files of an experiment, are not there.
        self.failures: dict[Job | Experiment, Exception] = {}
        #: What each experiment lacks: a job that failed, or its own files.
        self.unfinished: dict[Experiment, Job | Experiment] = {}
        self.written: list[Path] = []

    def go(self) -> None:
        """Do the jobs in order, and write each experiment as soon as all of its jobs are done."""
        self._begin()
        for job in self.to_do:
            if self._failed(in_order([job])) is not None:
                self.pace.dropped(self.costs[job])
                continue
            self._do(job)
            self._write()

    def share(self, workers: int) -> None:
        """The same in several processes, each job as soon as those that it needs are done."""
        self._begin()
        waiting, running = list(self.to_do), dict[Future[float], Job]()
        with crew(self.study, workers) as pool:
            while waiting or running:
                for job in list(waiting):
                    if self._failed(in_order([job])) is not None:
                        waiting.remove(job)
                        self.pace.dropped(self.costs[job])
                    elif len(running) < workers and all(map(self.study.is_done, job.needs())):
                        waiting.remove(job)
                        running[pool.submit(do_job, job)] = job
                        self.display.started(job.name)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._end(running.pop(future), future)
                self._write()

    def _end(self, job: Job, future: Future[float]) -> None:
        """Note how a job of another process ended."""
        try:
            seconds = future.result()
        except BrokenProcessPool:
            raise CfoptError(
                f"A process ended while it worked on {job.name}, perhaps for lack of memory. Run "
                "the same command again, with fewer --workers."
            ) from None
        except Exception as error:
            self._fail(job, error)
            self.pace.dropped(self.costs[job])
            return
        self.pace.finished(self.costs[job])
        self.display.finished(job.name, seconds)

    def _begin(self) -> None:
        before = len(self.all) - len(self.to_do)
        if before:
            self.display.say(f"{before} of {len(self.all)} jobs are already done.")
        self._write()

    def _do(self, job: Job) -> None:
        cost, start = self.costs[job], time.perf_counter()
        self.display.started(job.name)

        def report(fraction: float) -> None:
            self.pace.moved(cost * min(max(fraction, 0.0), 1.0))
            self.display.moved()

        try:
            self.study.do(job, report)
        except Exception as error:
            self._fail(job, error)
            self.pace.dropped(cost)
            return
        self.pace.finished(cost)
        self.display.finished(job.name, time.perf_counter() - start)

    def _fail(self, what: Job | Experiment, error: Exception) -> None:
        """Record a failure; raise it if every other job would fail too."""
        if isinstance(error, StorageError) or getattr(error, "errno", None) in _BROKEN:
            raise error
        self.failures[what] = error
        self.display.say(f"{what.name} failed: {_reason(error)}")

    def _failed(self, jobs: Sequence[Job]) -> Job | None:
        """The first of some jobs that failed, if any."""
        return next((job for job in jobs if job in self.failures), None)

    def _write(self) -> None:
        """Write the experiments that have become complete; note those that cannot."""
        for experiment, jobs in list(self.jobs.items()):
            lacking = self._failed(jobs)
            if lacking is not None:
                self.unfinished[experiment] = lacking
            elif not all(self.study.is_done(job) for job in jobs):
                continue
            else:
                self._finish(experiment)
            del self.jobs[experiment]

    def _finish(self, experiment: Experiment) -> None:
        try:
            paths = write_results(experiment, self.study)
        except Exception as error:
            self._fail(experiment, error)
            self.unfinished[experiment] = experiment
            return
        self.written += paths
        names = ", ".join(path.name for path in paths)
        self.display.say(f"{experiment.name} is finished: {names} in {self.study.folder}")

    def kept(self) -> str:
        """What is kept, and how to resume."""
        done = sum(self.study.is_done(job) for job in self.all)
        return (
            f"{done} of {len(self.all)} jobs are done and kept in {self.study.folder}; the same "
            f"command resumes (about {duration(self.pace.left)} left)."
        )

    def verdict(self) -> str:
        """Which experiments could not be finished, and why."""
        count = len(self.unfinished)
        lines = [f"{count} {'experiment' if count == 1 else 'experiments'} could not be finished:"]
        for experiment, lacking in self.unfinished.items():
            what = "its files" if lacking is experiment else lacking.name
            lines.append(f"  {experiment.name}: {what} failed: {_reason(self.failures[lacking])}")
        lines.append(
            f"All else is in {self.study.folder}. The same command tries again what failed; "
            "--debug shows where the first failure comes from."
        )
        return "\n".join(lines)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, CfoptError) else f"{type(error).__name__}: {error}"
