"""The demonstration: routes across a map, naively and plausibly, in three ways; a real day."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import cfopt
from cfopt import metrics
from cfopt.app.demo_flights import explain_day
from cfopt.engine.progress import Progress as EngineProgress
from cfopt.models.terrain import TerrainModels, load_terrain
from cfopt.plots import plot_gallery, plot_naive_and_plausible
from cfopt.running.heartbeat import Heartbeat
from cfopt.running.threads import of_torch

#: How strongly codes are drawn to the sphere of typical ones: the paper's choice.
_BETA = 10.0
_COLUMNS = (
    TextColumn("{task.description:44}"),
    BarColumn(),
    TaskProgressColumn(),
    TimeElapsedColumn(),
)


class _Stage:
    """What the demonstration is at: bars in a terminal, elsewhere a line every few seconds."""

    def __init__(self, bars: Progress) -> None:
        self._bars, self.words = bars, "Loading the models."

    def of(self, words: str, total: int) -> Callable[[int], None]:
        """Begin something; what is returned says how much of it is done."""
        bar = self._bars.add_task(words, total=total)

        def done(count: int) -> None:
            self.words = f"{words}: {count} of {total} done."
            self._bars.update(bar, completed=count)

        done(0)
        return done


def run(folder: Path, console: Console, maps: int = 6) -> None:
    """Explain the shipped pipeline's decisions for a few maps and for one day, with pictures.

    Arguments:
        folder: where pictures, data and the summary go.
        console: where to show them.
        maps: how many to explain.
    """
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    bars = Progress(*_COLUMNS, console=console, disable=not console.is_terminal)
    stage = _Stage(bars)
    with Heartbeat(console, lambda: stage.words), of_torch(1):
        models = load_terrain(40)
        with bars:
            answers, naive = _answers(models, maps, stage)
        stage.words = "Drawing."
        shown = _shown(answers, naive)
        report = [_comparison(models, naive, answers["absolute"])]
        for name, explanation in answers.items():
            explanation[shown].plot(folder / f"{name}.png")
            explanation.to_json(folder / f"{name}.json")
            report.append(f"## {name}\n{explanation.summary()}\n")
        plot_gallery(answers["absolute"], folder / "gallery.png")
        plot_naive_and_plausible(naive[shown], answers["absolute"][shown], folder / "naive.png")
        stage.words = "Explaining a day of flights."
        report.append(explain_day(folder))
    report.append(f"All of this took {time.perf_counter() - start:.0f} seconds.")
    text = "\n".join(report)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    console.print(text, highlight=False)
    console.print(f"Pictures, data and this summary are in [bold]{folder}[/bold].")


def _answers(
    models: TerrainModels, maps: int, stage: _Stage
) -> tuple[dict[str, cfopt.Explanation], cfopt.Explanation]:
    """Plausible answers to each question, and naive ones to the absolute one."""
    x0, references = models.maps[:maps], models.maps[20 : 20 + maps]
    # What a planner might ask: why not the way that is best on another map?
    wanted = models.pipeline.decide(references)
    questions = {
        "relative": cfopt.Relative(wanted),
        "absolute": cfopt.Absolute(wanted),
        "epsilon": cfopt.Epsilon(0.3),
    }
    answers = {}
    for name, question in questions.items():
        done = stage.of(f"Explaining {maps} maps ({name})", maps)
        answers[name] = cfopt.explain(
            x0,
            models.pipeline,
            question,
            generative=models.generative,
            plausibility=cfopt.Sphere(_BETA),
            reference=references,
            on_progress=partial(_follow, done),
        )
        done(maps)
    done = stage.of("Naive search among pixels (absolute)", maps)
    naive = cfopt.explain(
        x0,
        models.pipeline,
        questions["absolute"],
        search=cfopt.MDMM(),
        on_progress=partial(_follow, done),
    )
    done(maps)
    return answers, naive


def _follow(done: Callable[[int], None], progress: EngineProgress) -> None:
    done(progress.total - progress.running)


def _shown(answers: dict[str, cfopt.Explanation], naive: cfopt.Explanation) -> int:
    """The map with the most answers and, of these, the largest visible change."""
    found = naive.valid & (naive.steps > 0)
    score = answers["absolute"].distance.clone()
    for explanation in answers.values():
        score += 1e3 * (explanation.valid & (explanation.steps > 0))
    return int((score + 1e3 * found).argmax())


def _comparison(
    models: TerrainModels, naive: cfopt.Explanation, plausible: cfopt.Explanation
) -> str:
    """How much of each decision is left after reconstruction."""
    lines = ["## naive beside plausible (absolute)"]
    for name, e in (("naive, among pixels", naive), ("plausible, among codes", plausible)):
        if not e.valid.any():
            lines.append(f"{name}: nothing valid was found.")
            continue
        x = e.x[e.valid]
        error = metrics.decision_focused_error(x, models.pipeline, models.judge)
        lines.append(
            f"{name}: {int(e.valid.sum())} of {len(e)} valid, median distance "
            f"{e.distance[e.valid].median():.3g}; redrawn by a model that took no part, its path "
            f"is {100 * error.median():.1f}% off the best (median)."
        )
    return "\n".join(lines) + "\n"
