"""What `cfopt reproduce` runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cfopt_paper.catalogue import EXPERIMENTS, experiments_named
from cfopt_paper.reproduce import reproduce
from cfopt_paper.scale import scale_named
from cfopt_paper.study import Study


def reproduce_named(
    names: Sequence[str],
    scale: str,
    out: Path | None,
    seed: int,
    data: Path | None,
    tasks: int | None,
    workers: int,
    console: Console,
) -> None:
    """Reproduce some experiments, or list all of them if none is named.

    Arguments:
        names: names of experiments, or "all".
        scale: "quick", "standard" or "paper".
        out: the folder for results; reproduction/SCALE by default.
        seed: the seed of data, models and tasks.
        data: the folder of the published Warcraft maps; generated maps by default.
        tasks: the number of explanations at each point, in place of the scale's own.
        workers: the number of processes, each with one thread.
        console: where to print.
    """
    # All names first: a mistake leaves no folder behind.
    chosen, size = experiments_named(names), scale_named(scale, tasks)
    if chosen:
        folder = Path("reproduction", size.name) if out is None else out
        reproduce(chosen, Study(folder, size, seed, data), console, workers)
        return
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        line = f"{name:{width}}  {experiment.title}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)
