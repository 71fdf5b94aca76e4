"""The demonstration: routes across a map, naively and plausibly, in three ways; a real day."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from torch import Tensor

import cfopt
from cfopt import metrics
from cfopt.app.demo_flights import explain_day
from cfopt.models.terrain import TerrainModels, load_terrain
from cfopt.plots import plot_gallery, plot_naive_and_plausible
from cfopt.running.threads import single_threaded

#: How strongly codes are drawn to the sphere of typical ones: the paper's choice.
_BETA = 10.0
_COLUMNS = (
    TextColumn("{task.description:44}"),
    BarColumn(),
    TaskProgressColumn(),
    TimeElapsedColumn(),
)


def run(folder: Path, console: Console, maps: int = 6) -> None:
    """Explain the shipped pipeline's decisions for a few maps and for one day, with pictures.

    Arguments:
        folder: where pictures, data and the summary go.
        console: where to show them.
        maps: how many to explain.
    """
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    models = load_terrain(40)
    x0, references = models.maps[:maps], models.maps[20 : 20 + maps]
    # What a planner might ask: why not the way that is best on another map?
    wanted = models.pipeline.decide(references)
    questions = {
        "relative": cfopt.Relative(wanted),
        "absolute": cfopt.Absolute(wanted),
        "epsilon": cfopt.Epsilon(0.3),
    }
    with single_threaded(), Progress(*_COLUMNS, console=console) as bars:
        answers = {
            name: _explain(bars, name, models, x0, question, references)
            for name, question in questions.items()
        }
        bar = bars.add_task("Naive search among pixels (absolute)", total=1)
        naive = cfopt.explain(x0, models.pipeline, questions["absolute"], search=cfopt.MDMM())
        bars.advance(bar)
    shown = _shown(answers, naive)
    report = [_comparison(models, naive, answers["absolute"])]
    for name, explanation in answers.items():
        explanation[shown].plot(folder / f"{name}.png")
        explanation.to_json(folder / f"{name}.json")
        report.append(f"## {name}\n{explanation.summary()}\n")
    plot_gallery(answers["absolute"], folder / "gallery.png")
    plot_naive_and_plausible(naive[shown], answers["absolute"][shown], folder / "naive.png")
    report.append(explain_day(folder))
    report.append(f"All of this took {time.perf_counter() - start:.0f} seconds.")
    text = "\n".join(report)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    console.print(text, highlight=False)
    console.print(f"Pictures, data and this summary are in [bold]{folder}[/bold].")


def _explain(
    bars: Progress,
    name: str,
    models: TerrainModels,
    x0: Tensor,
    criterion: cfopt.Criterion,
    references: Tensor,
) -> cfopt.Explanation:
    bar = bars.add_task(f"Explaining {len(x0)} maps ({name})", total=len(x0))
    explanation = cfopt.explain(
        x0,
        models.pipeline,
        criterion,
        generative=models.generative,
        plausibility=cfopt.Sphere(_BETA),
        reference=references,
        on_progress=lambda p: bars.update(bar, completed=p.total - p.running),
    )
    bars.update(bar, completed=len(x0))
    return explanation


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
        error = metrics.decision_focused_error(x, models.pipeline, models.plain_vae)
        lines.append(
            f"{name}: {int(e.valid.sum())} of {len(e)} valid, median distance "
            f"{e.distance[e.valid].median():.3g}; after reconstruction by the plain VAE its path "
            f"is {100 * error.median():.1f}% off the best (median)."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the demonstration from the command line."""
    parser = argparse.ArgumentParser(prog="python -m cfopt.app.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results")
    run(parser.parse_args().out, Console())


if __name__ == "__main__":
    main()
