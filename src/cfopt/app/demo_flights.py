"""The second part of the demonstration: one real day, and why its plan was not another one."""

from __future__ import annotations

from pathlib import Path

import torch

import cfopt
from cfopt.datasets import flights
from cfopt.errors import MissingExtraError

DAY = "2013-06-12"


def explain_day(folder: Path) -> str:
    """Ask why flights did not leave from LGA at six, draw the answer and return it in words.

    Without the packages that read forests, only say how to install them.

    Arguments:
        folder: where the picture goes.
    """
    title = f"## flights from New York, {DAY}: why not LGA at 6?\n"
    try:
        e = _answer()
    except MissingExtraError as error:
        return f"{title}{error}\n"
    e.plot(folder / "flights.png")
    scene = flights.Timetable().cached_scene
    plan, wanted = (scene.name_of(part[0].numpy()) for part in (e.factual, e.alternative))
    return f"{title}Decided: {plan}.\nThe alternative: {wanted}.\n{e.summary()}\n"


def _answer() -> cfopt.Explanation:
    """When would the best plan that leaves from LGA at six have been the best of all?"""
    data = flights.load()
    known, new = data.split()
    pipeline = cfopt.Pipeline(flights.forest().fit(known.contexts, known.delays), data.problem)
    day = new.contexts.loc[[DAY]]
    plans = data.problem.decisions()
    assert plans is not None  # there are few
    plans = plans[plans[:, data.delays.columns.get_loc("LGA at 6")] == 1]
    wanted = plans[torch.argmin(plans @ pipeline.costs(day)[0].double())]
    criterion = cfopt.Absolute(wanted)
    return cfopt.explain(day, pipeline, criterion, features=data.features, reference=known.contexts)
