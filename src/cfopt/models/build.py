"""Training of the shipped models: `python -m cfopt.models.build`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cfopt.datasets import Maps, Terrain
from cfopt.generative import Batch, CompactVAE, Epoch, Training, train
from cfopt.models import terrain
from cfopt.models.card import measure, write_card
from cfopt.predictors import MSE, CompactCNN, Loss, SPOPlus, fit
from cfopt.weights import check_room, save_module

_COLUMNS = (
    TextColumn("{task.description:60}"),
    BarColumn(bar_width=24),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


def build(folder: Path, scratch: Path, maps: int, epochs: int, console: Console) -> None:
    """Train what is missing in a folder: first the predictor, then a VAE for each alpha.

    Arguments:
        folder: where weights and model card go.
        scratch: for checkpoints, from which a run that was stopped goes on.
        maps: how many to train on.
        epochs: of each VAE, at most.
    """
    for place in (folder, scratch):
        place.mkdir(parents=True, exist_ok=True)
        check_room(place, 100_000_000)
    training = Terrain().generate(maps, seed=terrain.TRAINING_SEED)
    validation = Terrain().generate(max(maps // 10, 10), seed=terrain.VALIDATION_SEED)
    with Progress(*_COLUMNS, console=console) as bars:
        path = folder / terrain.PREDICTOR
        if not path.exists():
            save_module(_predictor(bars, training, validation), path, torch.float16)
        # As it will be used: rounded to half precision.
        predictor = terrain.load_predictor(folder)
        for alpha, name in terrain.VAES.items():
            if not (folder / name).exists():
                torch.manual_seed(0)
                vae = CompactVAE()
                knobs = Training(alpha=alpha, epochs=epochs)
                checkpoint = scratch / f"{name}.checkpoint"
                history = train(
                    vae,
                    training.images,
                    validation.images,
                    knobs,
                    predictor=predictor,
                    checkpoint=checkpoint,
                    on_progress=_Bar(bars, f"VAE, alpha = {alpha:g}", epochs),
                )
                save_module(vae, folder / name, torch.float16)
                lines = json.dumps([vars(epoch) for epoch in history], indent=1)
                (scratch / f"{name}.history.json").write_text(lines, encoding="utf-8")
                checkpoint.unlink()
    write_card(folder, measure(folder), maps, epochs)


def _predictor(bars: Progress, training: Maps, validation: Maps) -> CompactCNN:
    torch.manual_seed(0)
    predictor = CompactCNN()
    generator = torch.Generator().manual_seed(0)
    # First for costs of the right size, which SPO+ alone leaves open, then for good decisions.
    stages: list[tuple[str, Loss, float, int]] = [
        ("MSE", MSE(), 2e-3, 12),
        ("SPO+", SPOPlus(training.problem), 2e-4, 6),
    ]
    for name, loss, learning_rate, epochs in stages:
        bar = bars.add_task(f"predictor, {name}", total=epochs)
        fit(
            predictor,
            training.images,
            training.costs,
            loss,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_size=64,
            validation=(validation.images, validation.costs),
            patience=4,
            generator=generator,
            on_epoch=lambda _, value, bar=bar, name=name: bars.update(  # type: ignore[misc]
                bar, advance=1, description=f"predictor, {name}: {value:.3f}"
            ),
        )
    return predictor


class _Bar:
    """A progress bar of a VAE's training, in epochs, with what the last one came to."""

    def __init__(self, bars: Progress, title: str, epochs: int) -> None:
        self._bars, self._title = bars, title
        self._bar = bars.add_task(title, total=epochs)

    def __call__(self, report: Batch | Epoch) -> None:
        if isinstance(report, Batch):
            self._bars.update(self._bar, completed=report.epoch - 1 + report.done / report.total)
            return
        text = f"{self._title}: error {report.reconstruction:.0f}, {report.active} active"
        self._bars.update(self._bar, completed=report.number, description=text)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(prog="python -m cfopt.models.build", description=__doc__)
    parser.add_argument("--out", type=Path, default=terrain.FOLDER, help="folder for the weights")
    parser.add_argument("--scratch", type=Path, default=Path("build/models"), help="checkpoints")
    parser.add_argument("--maps", type=int, default=10_000, help="maps to train on")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of each VAE, at most")
    given = parser.parse_args()
    build(given.out, given.scratch, given.maps, given.epochs, Console())


if __name__ == "__main__":
    main()
