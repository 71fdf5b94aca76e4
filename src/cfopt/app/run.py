"""A run of a configuration: tried first, then explained in parts that are kept."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from cfopt.app.config import Config
from cfopt.app.job import Job, JobRecipe, placed
from cfopt.errors import InputError
from cfopt.fleet import run as fleet
from cfopt.fleet.answers import each_alone
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.run import Orders
from cfopt.result.explanation import Explanation
from cfopt.running.heartbeat import Heartbeat
from cfopt.running.threads import suited_threads

#: Rows on which everything is tried before the run.
_TRIED = 4


def run(work: Job, folder: Path, console: Console, orders: Orders | None = None) -> RunFolder:
    """Explain all rows that are not explained yet, and write the results of all.

    Arguments:
        work: what to explain.
        folder: where everything is written; one that holds another run is refused.
        console: where to show progress: a bar in a terminal, else lines.
        orders: the engine, the number of workers, and which parts to run.
    """
    threads = suited_threads(work.pipeline, work.threads)
    with threads, Heartbeat(console, lambda: "Trying the first rows."):
        try_out(work)
    recipe = JobRecipe(work.config.path.resolve(), work.config.trust.given)
    return fleet.run(work, recipe, folder, console, orders or Orders())


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


def results_folder(config: Config, out: Path | None) -> Path:
    """Where results go: as the command says, else as configured."""
    folder = config.folder if out is None else out
    if folder.resolve() == config.path.parent.resolve():
        raise InputError(f"{folder} holds the configuration. Pass a folder of its own with --out.")
    return folder
