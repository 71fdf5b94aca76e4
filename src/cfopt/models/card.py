"""How good the shipped models are, measured on maps that they have not seen: the model card."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import cfopt
from cfopt import metrics
from cfopt.datasets import Maps, Terrain
from cfopt.generative import VAE
from cfopt.models.terrain import PREDICTOR, TEST_SEED, VAES, TerrainModels, load_terrain
from cfopt.predictors import Quality, assess
from cfopt.question.plausibility import MassTable, encoded_mass

CARD = "README.md"
_MAPS = 1000
_KAPPAS = (0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Reconstruction:
    """What a VAE does to maps that it has not seen; means over maps.

    Arguments:
        error: squared reconstruction error of the mean code.
        costs: squared error of the predicted costs, summed over cells.
        regret: relative regret of the path before reconstruction, by the costs after it.
        true_regret: the same of the truly shortest path.
        mass: the mass of the thickened sphere, by the prior and by codes.
    """

    error: float
    costs: float
    regret: float
    true_regret: float
    mass: MassTable


def measure(folder: Path) -> tuple[Quality, list[Reconstruction]]:
    """Assess the models of a folder on 1,000 test maps: the CNN, then the VAEs as in `VAES`."""
    models = load_terrain(_MAPS, folder)
    maps = Terrain().generate(_MAPS, seed=TEST_SEED)
    quality = assess(models.pipeline, maps.images, maps.costs)
    vaes = (models.plain_vae, models.generative)
    return quality, [_reconstruct(models, maps, vae) for vae in vaes]


@torch.no_grad()
def _reconstruct(models: TerrainModels, maps: Maps, vae: VAE) -> Reconstruction:
    x, pipeline = models.maps, models.pipeline
    remade = torch.cat([vae(part) for part in torch.split(x, 250)])
    codes = [vae.distribution(part) for part in torch.split(x, 250)]
    moved = pipeline.costs(remade) - pipeline.costs(x)
    return Reconstruction(
        error=metrics.reconstruction_error(x, vae).mean().item(),
        costs=moved.square().sum(1).mean().item(),
        regret=metrics.decision_focused_error(x, pipeline, vae).mean().item(),
        true_regret=pipeline.regret(remade, maps.paths).mean().item(),
        mass=encoded_mass(
            torch.cat([code.mean for code in codes]),
            torch.cat([code.log_variance for code in codes]),
            _KAPPAS,
        ),
    )


def write_card(
    folder: Path,
    measured: tuple[Quality, list[Reconstruction]],
    maps: int,
    epochs: int,
) -> None:
    """Write the model card beside the weights."""
    quality, (plain, aware) = measured
    names = (PREDICTOR, *VAES.values())
    filled = (
        (Path(__file__).parent / "card.md")
        .read_text(encoding="utf-8")
        .format(
            names=names,
            sizes=[(folder / name).stat().st_size / 1e6 for name in names],
            maps=maps,
            held_out=max(maps // 10, 10),
            tests=_MAPS,
            epochs=epochs,
            versions={
                "cfopt": cfopt.__version__,
                "torch": torch.__version__.split("+")[0],
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            quality=quality,
            plain=plain,
            aware=aware,
            masses=[plain.mass.summary(), aware.mass.summary()],
        )
    )
    (folder / CARD).write_text(filled, encoding="utf-8")
