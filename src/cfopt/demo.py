"""The demonstration: train a small pipeline, then explain one of its decisions in three ways."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import cfopt
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, Loss, SPOPlus, fit, linear

_EPOCHS = 30
_COLUMNS = (
    TextColumn("{task.description:40}"),
    BarColumn(),
    TaskProgressColumn(),
    TimeElapsedColumn(),
)


def run(folder: Path, console: Console) -> None:
    """Train the paper's 5x5 grid pipeline, explain 100 of its decisions, and draw one of them."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    with Progress(*_COLUMNS, console=console) as bars:
        pipeline, data = _train(bars, generator)
        x0 = data.contexts[1000:1100]
        # What a planner might ask: why not the route that is best somewhere else?
        alternatives = pipeline.decide(data.contexts[1100:1200])
        questions = {
            "relative": cfopt.Relative(alternatives),
            "absolute": cfopt.Absolute(alternatives),
            "epsilon": cfopt.Epsilon(0.5),
        }
        answers = {name: _explain(bars, name, x0, pipeline, q) for name, q in questions.items()}
    shown = _typical(answers)
    report = []
    for name, explanation in answers.items():
        explanation[shown].plot(folder / f"{name}.png")
        explanation.to_json(folder / f"{name}.json")
        report.append(f"## {name}\n{explanation.summary()}\n\n{explanation[shown].summary()}\n")
    text = "\n".join(report)
    (folder / "summary.txt").write_text(text, encoding="utf-8")
    console.print(text, highlight=False)
    console.print(f"Pictures, data and this summary are in [bold]{folder}[/bold].")


def _typical(answers: dict[str, cfopt.Explanation]) -> int:
    """The context nearest to the average one (0) whose three answers all show another decision."""
    unusual = torch.zeros(100)
    for explanation in answers.values():
        found = explanation.valid & (explanation.steps > 0)
        found &= (explanation.alternative != explanation.factual).any(1)
        unusual += torch.where(found, explanation.x0.norm(dim=1), torch.inf)
    return int(unusual.argmin())


def _train(
    bars: Progress, generator: torch.Generator
) -> tuple[cfopt.Pipeline, synthetic.Synthetic]:
    data = synthetic.grid(2000, features=10)
    torch.manual_seed(0)
    predictor = linear(10, data.problem.num_costs)
    # First for costs of the right size, which SPO+ alone leaves open, then for good decisions.
    stages: list[tuple[Loss, float]] = [(MSE(), 1e-2), (SPOPlus(data.problem), 3e-4)]
    bar = bars.add_task("Training on 1,000 shortest paths", total=_EPOCHS * len(stages))
    for loss, learning_rate in stages:
        fit(
            predictor,
            data.contexts[:1000],
            data.costs[:1000],
            loss,
            epochs=_EPOCHS,
            learning_rate=learning_rate,
            generator=generator,
            on_epoch=lambda *_: bars.advance(bar),
        )
    return cfopt.Pipeline(predictor, data.problem), data


def _explain(
    bars: Progress,
    name: str,
    x0: torch.Tensor,
    pipeline: cfopt.Pipeline,
    criterion: cfopt.Criterion,
) -> cfopt.Explanation:
    bar = bars.add_task(f"Explaining 100 decisions ({name})", total=len(x0))

    def show(progress: cfopt.Progress) -> None:
        bars.update(bar, completed=len(x0) - progress.running)

    explanation = cfopt.explain(x0, pipeline, criterion, on_progress=show)
    bars.update(bar, completed=len(x0))
    return explanation


def main() -> None:
    """Run the demonstration from the command line."""
    parser = argparse.ArgumentParser(prog="python -m cfopt.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results")
    run(parser.parse_args().out, Console())


if __name__ == "__main__":
    main()
