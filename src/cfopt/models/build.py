"""Training of the shipped models: `python -m cfopt.models.build`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

from cfopt.datasets import Maps, Terrain
from cfopt.errors import InputError
from cfopt.generative import (
    CompactVAE,
    Elliptical,
    Flow,
    ProgressBar,
    TexturedVAE,
    Training,
    train,
)
from cfopt.models import terrain
from cfopt.models.card import measure, write_card
from cfopt.models.plans import (
    EPOCHS,
    FLOW,
    JUDGE,
    JUDGE_HELD_OUT,
    JUDGE_MAPS,
    JUDGE_WIDTH,
    LAYERS,
    MAPS,
    PRIOR_SEEDS,
    SHARP,
    WIDTH,
)
from cfopt.pipeline.images import as_floats
from cfopt.predictors import MSE, CompactCNN, Loss, SPOPlus, fit
from cfopt.storage.files import check_room, write_whole
from cfopt.storage.weights import save_module


def build(folder: Path, scratch: Path, maps: int, epochs: int, console: Console) -> None:
    """Train what is missing in a folder: the predictor, a VAE for each alpha, sharp ones, a judge.

    Arguments:
        folder: where weights and model card go.
        scratch: the folder of checkpoints, from which a run that was stopped resumes.
        maps: the number of maps to train on.
        epochs: the most epochs of each VAE.
    """
    for place in (folder, scratch):
        place.mkdir(parents=True, exist_ok=True)
        check_room(place, 100_000_000)
    _settle(folder / terrain.TRAINING, {"maps": maps, "epochs": epochs})
    training = Terrain().generate(maps, seed=terrain.TRAINING_SEED)
    validation = Terrain().generate(max(maps // 10, 10), seed=terrain.VALIDATION_SEED)
    path = folder / terrain.PREDICTOR
    if not path.exists():
        save_module(_predictor(training, validation, console), path, torch.float16)
    # As it will be used: rounded to half precision.
    predictor = terrain.load_predictor(folder)
    for alpha, name in terrain.VAES.items():
        if (folder / name).exists():
            continue
        torch.manual_seed(0)
        vae = CompactVAE()
        checkpoint = scratch / f"{name}.checkpoint"
        with ProgressBar(f"VAE, alpha = {alpha:g}", epochs, console) as bar:
            train(
                vae,
                training.images,
                validation.images,
                Training(alpha=alpha, epochs=epochs),
                predictor=predictor,
                checkpoint=checkpoint,
                on_progress=bar,
            )
        save_module(vae, folder / name, torch.float16)
        checkpoint.unlink()
    for name, make in (
        (terrain.SHARP, _sharp),
        (terrain.FLOW, _flow),
        (terrain.JUDGE, _judge),
    ):
        if not (folder / name).exists():
            checkpoint = scratch / f"{name}.checkpoint"
            made = make(folder, training, validation, checkpoint, console)
            save_module(made, folder / name, torch.float16)
            checkpoint.unlink()
    path = folder / terrain.ELLIPTICAL
    if not path.exists():
        save_module(_elliptical(folder, training), path)  # in full: it has to invert itself
    write_card(folder, measure(folder), maps, epochs)


def _settle(path: Path, asked: dict[str, int]) -> None:
    """Note what models of a folder are trained with; the card states it of all of them."""
    if path.exists() and (found := json.loads(path.read_text(encoding="utf-8"))) != asked:
        raise InputError(
            f"The models in {path.parent} are trained with {found}, asked for is {asked}. Ask for "
            "the same, or pass another folder as --out."
        )
    write_whole(path, (json.dumps(asked) + "\n").encode())


def _sharp(
    folder: Path, training: Maps, validation: Maps, checkpoint: Path, console: Console
) -> nn.Module:
    """The sharp VAE, cost-aware as well, which knows what it usually loses."""
    torch.manual_seed(0)
    vae = TexturedVAE()
    with ProgressBar("sharp VAE", SHARP.epochs, console) as bar:
        train(
            vae,
            training.images,
            validation.images,
            SHARP,
            predictor=terrain.load_predictor(folder),
            checkpoint=checkpoint,
            on_progress=bar,
        )
    return vae.calibrate(validation.contexts())


def _judge(
    folder: Path, training: Maps, validation: Maps, checkpoint: Path, console: Console
) -> nn.Module:
    """A sharp VAE that shares neither maps nor costs with the one that explains."""
    maps, held_out = (
        Terrain().generate(len(part.images), seed=seed)
        for part, seed in ((training, JUDGE_MAPS), (validation, JUDGE_HELD_OUT))
    )
    torch.manual_seed(JUDGE.seed)
    vae = TexturedVAE(width=JUDGE_WIDTH)
    with ProgressBar("judge", JUDGE.epochs, console) as bar:
        train(vae, maps.images, held_out.images, JUDGE, checkpoint=checkpoint, on_progress=bar)
    return vae.calibrate(held_out.contexts())


def _flow(
    folder: Path, training: Maps, validation: Maps, checkpoint: Path, console: Console
) -> nn.Module:
    """The prior of the sharp VAE's codes, a sample of the code of each of many maps."""
    vae = terrain.load_sharp(folder)
    generator = torch.Generator().manual_seed(0)
    count = len(training.images)
    codes = torch.cat(
        [
            _sampled(vae, Terrain().generate(count, seed=seed).images, generator)
            for seed in PRIOR_SEEDS
        ]
    )
    others = _sampled(vae, validation.images, generator)
    torch.manual_seed(0)
    flow = Flow(vae.latent_dim, vae.grid, LAYERS, WIDTH).standardise(codes)
    with ProgressBar("flow", FLOW.epochs, console) as bar:
        train(flow, codes, others, FLOW, checkpoint=checkpoint, on_progress=bar)
    return flow


@torch.no_grad()
def _elliptical(folder: Path, training: Maps) -> nn.Module:
    """The simple prior of the sharp VAE's codes, by the code of each map of the training."""
    vae = terrain.load_sharp(folder)
    parts = torch.split(training.images, 250)
    codes = torch.cat([vae.encode(as_floats(part)) for part in parts])
    return Elliptical(vae.latent_dim).standardise(codes)


@torch.no_grad()
def _sampled(vae: TexturedVAE, images: Tensor, generator: torch.Generator) -> Tensor:
    """A code of each map, drawn as the encoder says: `(N, 3, H, W) -> (N, n)`."""
    parts = torch.split(images, 250)
    return torch.cat([vae.distribution(as_floats(part)).sample(generator) for part in parts])


def _predictor(training: Maps, validation: Maps, console: Console) -> CompactCNN:
    torch.manual_seed(0)
    predictor = CompactCNN()
    generator = torch.Generator().manual_seed(0)
    # First for costs of the right size, which SPO+ alone leaves open, then for good decisions.
    stages: list[tuple[str, Loss, float, int]] = [
        ("MSE", MSE(), 2e-3, 12),
        ("SPO+", SPOPlus(training.problem), 2e-4, 6),
    ]
    for name, loss, learning_rate, epochs in stages:

        def show(epoch: int, value: float, name: str = name, epochs: int = epochs) -> None:
            console.print(f"CNN, {name}: epoch {epoch} of {epochs}, validation loss {value:.3f}")

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
            on_epoch=show,
        )
    return predictor


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(prog="python -m cfopt.models.build", description=__doc__)
    parser.add_argument("--out", type=Path, default=terrain.FOLDER, help="folder for the weights")
    parser.add_argument("--scratch", type=Path, default=Path("build/models"), help="checkpoints")
    parser.add_argument("--maps", type=int, default=MAPS, help="maps to train on")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="epochs of each VAE, at most")
    given = parser.parse_args()
    build(given.out, given.scratch, given.maps, given.epochs, Console())


if __name__ == "__main__":
    main()
