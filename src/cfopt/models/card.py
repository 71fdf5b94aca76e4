"""How good the shipped models are, measured on maps that they have not seen: the model card."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

import cfopt
from cfopt import metrics
from cfopt.datasets import Maps, Terrain
from cfopt.generative import VAE, FlowPrior
from cfopt.models import plans
from cfopt.models.terrain import (
    ELLIPTICAL,
    FLOW,
    JUDGE,
    PREDICTOR,
    SHARP,
    TEST_SEED,
    VAES,
    TerrainModels,
    load_terrain,
)
from cfopt.predictors import Quality, assess
from cfopt.question.plausibility import MassTable, encoded_mass

CARD = "README.md"
_MAPS = 1000
_KAPPAS = (0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Reconstruction:
    """What a model does to maps that it has not seen; means over maps.

    Arguments:
        error: squared reconstruction error of the mean code.
        costs: squared error of the predicted costs, summed over cells.
        regret: relative regret of the path before reconstruction, by the costs after it.
        true_regret: the same of the truly shortest path.
        moved: the fraction of maps whose path is another one after reconstruction.
        energy: the gradient energy after reconstruction, as a multiple of that before.
        samples: the Frechet distance of samples of the prior, on the features of the CNN.
        mass: the mass of the thickened sphere, by the prior and by codes.
    """

    error: float
    costs: float
    regret: float
    true_regret: float
    moved: float
    energy: float
    samples: float
    mass: MassTable


def measure(folder: Path) -> tuple[Quality, list[Reconstruction]]:
    """Assess the models of a folder on 1,000 test maps: the CNN, then the other models."""
    models = load_terrain(_MAPS, folder)
    maps = Terrain().generate(_MAPS, seed=TEST_SEED)
    quality = assess(models.pipeline, maps.images, maps.costs)
    simple = cast(FlowPrior, models.generative.model)
    paper, sharp = (models.plain_vae, models.cost_aware_vae), (models.sharp, simple, models.prior)
    return quality, [_reconstruct(models, maps, model) for model in (*paper, *sharp, models.judge)]


@torch.no_grad()
def _reconstruct(models: TerrainModels, maps: Maps, model: VAE | FlowPrior) -> Reconstruction:
    x, pipeline = models.maps, models.pipeline
    predictor = cast(nn.Module, pipeline.predictor)
    means = torch.cat([model.encode(part) for part in torch.split(x, 250)])
    remade = torch.cat([model.decode(part) for part in torch.split(means, 100)])
    log_variances = None
    if isinstance(model, VAE):
        codes = [model.distribution(part) for part in torch.split(x, 250)]
        log_variances = torch.cat([code.log_variance for code in codes])
    moved = pipeline.costs(remade) - pipeline.costs(x)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(means.shape, generator=generator)
    samples = torch.cat([model.decode(part) for part in torch.split(drawn, 100)])
    seen = (metrics.predictor_features(predictor, part) for part in (x, samples))
    other = (pipeline.decide(x) != pipeline.decide(remade)).any(1)
    return Reconstruction(
        error=metrics.reconstruction_error(x, model).mean().item(),
        costs=moved.square().sum(1).mean().item(),
        regret=metrics.decision_focused_error(x, pipeline, model).mean().item(),
        true_regret=pipeline.regret(remade, maps.paths).mean().item(),
        moved=other.double().mean().item(),
        energy=metrics.sharpness(remade, x)[0],
        samples=metrics.frechet_distance(*seen),
        mass=encoded_mass(means, log_variances, _KAPPAS),
    )


def write_card(
    folder: Path,
    measured: tuple[Quality, list[Reconstruction]],
    maps: int,
    epochs: int,
) -> None:
    """Write the model card beside the weights."""
    quality, found = measured
    names = (PREDICTOR, *VAES.values(), SHARP, ELLIPTICAL, FLOW, JUDGE)
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
            of=found,
            masses=[one.mass.summary() for one in found],
            sharp=plans.SHARP,
            flow=plans.FLOW,
            judge=plans.JUDGE,
            judge_maps=plans.JUDGE_MAPS,
            judge_width=plans.JUDGE_WIDTH,
            seeds=(plans.PRIOR_SEEDS[0], plans.PRIOR_SEEDS[-1]),
        )
    )
    (folder / CARD).write_text(filled, encoding="utf-8")
