"""A run of a configuration: tried first, then explained in parts that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from cfopt.app.config import Config
from cfopt.app.job import Job, JobRecipe, placed
from cfopt.errors import InputError
from cfopt.fleet import run as fleet
from cfopt.fleet.answers import each_alone
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.run import Orders
from cfopt.fleet.worker import Patience, find_lethal
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
    orders = orders or Orders()
    recipe = JobRecipe(work.config.path.resolve(), work.config.trust.given)
    patience, held = Patience(work.first.question.time_limit), {}
    with Heartbeat(console, lambda: "Trying the first rows."):
        if patience.limit is not None and orders.workers != 1:
            held = find_lethal(recipe, folder, first_rows(work), patience, "trial")
        with suited_threads(work.pipeline, work.threads):
            try_out(work, held)
    return fleet.run(work, recipe, folder, console, orders, held)


def first_rows(work: Job) -> range:
    """The rows on which everything is tried."""
    return range(min(_TRIED, len(work)))


def try_out(work: Job, held: Mapping[int, str] = MappingProxyType({})) -> Explanation:
    """Try the first rows, before anything is written; raise InputError if all of them fail.

    Arguments:
        work: what to explain.
        held: rows that end or hold a process, and what is said of them.
    """
    rows = first_rows(work)
    with placed(work.config):
        if held:
            found, failed = each_alone(work, rows, work.trial, held)
            if failed == len(rows):
                raise InputError(
                    f"none of the first rows can be tried: {next(iter(held.values()))}"
                )
            return found
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
