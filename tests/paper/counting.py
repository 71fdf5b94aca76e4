"""Experiments that only count, so that reproductions can be tested in no time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job, Report
from cfopt_paper.reproduce import reproduce
from cfopt_paper.scale import QUICK
from cfopt_paper.study import Study

#: The names of the jobs that were run, in order.
RUNS: list[str] = []
#: What happens at the end of a job, by its name.
EVENTS: dict[str, Callable[[], None]] = {}


def start_anew() -> None:
    """Nothing ran, and nothing will happen."""
    RUNS.clear()
    EVENTS.clear()


@dataclass(frozen=True)
class Count(Job):
    """One more than the jobs it needs came to, together."""

    label: str
    after: tuple[Count, ...] = ()

    @property
    def name(self) -> str:
        return self.label

    def needs(self) -> tuple[Job, ...]:
        return self.after

    def seconds(self, study: Study) -> float:
        return 10.0

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        RUNS.append(self.name)
        report(0.5)
        if self.name in EVENTS:
            EVENTS[self.name]()
        before = study.table(*self.after)["value"].sum() if self.after else study.seed
        return pd.DataFrame({"job": [self.name], "value": [float(before) + 1]})


class Counts(Experiment):
    """Some jobs, and a picture of what they came to."""

    keys = ("job",)
    values = ("value",)

    def __init__(self, name: str, *jobs: Count) -> None:
        self.name, self.title = name, f"What {name} comes to"
        self._jobs = jobs

    def jobs(self, study: Study) -> Sequence[Job]:
        return self._jobs

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        figure = Figure(figsize=(1, 1))
        figure.add_subplot().plot(rows["value"])
        return {self.name: figure, f"{self.name}-again": figure}


MODEL = Count("model")
FIRST = Counts("first", Count("a", (MODEL,)), Count("b", (MODEL,)))
SECOND = Counts("second", Count("b", (MODEL,)), Count("c", (Count("a", (MODEL,)), MODEL)))
ALONE = Counts("alone", Count("alone-1"), Count("alone-2"))
MANY = Counts("many", *(Count(f"many-{k}", (MODEL,)) for k in range(8)))


def lines_console() -> tuple[Console, io.StringIO]:
    """A console that is not a terminal, and what is printed there."""
    text = io.StringIO()
    return Console(file=text, width=80), text


def run_in(folder: Path, *experiments: Experiment) -> str:
    """What a reproduction prints."""
    console, text = lines_console()
    reproduce(experiments, Study(folder, QUICK), console)
    return text.getvalue()


def raising(error: BaseException) -> Callable[[], None]:
    """An event that raises an error."""

    def event() -> None:
        raise error

    return event
