"""The pictures of docs/flights.md: the answer, and the plans in the plane of its two changes."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

import cfopt
from cfopt.datasets import flights

DAY = "2013-06-12"
#: LGA at 6, JFK at 10, JFK at 14 and LGA at 18.
_WANTED = [0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1.0]
_HUMIDITY, _WIND = "humidity at JFK (%)", "wind at EWR (mph)"
_COLOURS = ("#cfd8e3", "#f2c6a0", "#9fc7a6", "#d9c2e0", "#e8e3a8", "#f0b0b0")


def draw(folder: Path) -> None:
    """Both of them, as files in a folder."""
    data = flights.load()
    known, new = data.split()
    forest = flights.forest().fit(known.contexts, known.delays)
    day = new.contexts.loc[[DAY]]
    answer = cfopt.explain(
        day,
        cfopt.Pipeline(forest, data.problem),
        cfopt.Absolute(_WANTED),
        features=data.features,
        reference=known.contexts,
    )
    answer.plot(folder / "flights-why.png")
    _map(forest, data.problem, day, answer.frame, folder / "flights-map.png")


def _map(
    forest: object, problem: cfopt.Problem, day: pd.DataFrame, x: pd.DataFrame, to: Path
) -> None:
    """Which plan is the best by humidity at JFK and wind at EWR, all else as it was."""
    humidity, wind = np.linspace(30, 80, 201), np.linspace(8, 22, 141)
    grid = np.stack(np.meshgrid(humidity, wind), axis=-1).reshape(-1, 2)
    contexts = day.loc[day.index.repeat(len(grid))]
    contexts = contexts.assign(**{_HUMIDITY: grid[:, 0], _WIND: grid[:, 1]})
    plans = problem.decisions().numpy()
    best = (forest.predict(contexts) @ plans.T).argmin(axis=1)
    shown, number = np.unique(best, return_inverse=True)
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    colours = ListedColormap(_COLOURS[: len(shown)])
    picture = number.reshape(len(wind), len(humidity))
    axes.pcolormesh(humidity, wind, picture, cmap=colours, shading="nearest", rasterized=True)
    for colour, plan in zip(_COLOURS, shown, strict=False):
        name = problem.cached_scene.name_of(plans[plan])
        axes.scatter([], [], color=colour, marker="s", s=80, label=name)
    (x0, y0), (x1, y1) = ((f[_HUMIDITY].iloc[0], f[_WIND].iloc[0]) for f in (day, x))
    axes.annotate("", (x1, y1), (x0, y0), arrowprops={"arrowstyle": "->", "lw": 1.6})
    axes.plot(x0, y0, "o", color="black", label="the weather of 12 June")
    axes.set(xlabel=_HUMIDITY, ylabel=_WIND, title="The best plan")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.savefig(to, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).parent / "images")
