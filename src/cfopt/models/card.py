"""How good the shipped models are, measured on maps that they have not seen: the model card."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
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


def measure(folder: Path) -> tuple[Quality, dict[float, Reconstruction]]:
    """Assess the models of a folder on 1,000 test maps."""
    models = load_terrain(_MAPS, folder)
    maps = Terrain().generate(_MAPS, seed=TEST_SEED)
    quality = assess(models.pipeline, maps.images, maps.costs)
    vaes = {0.0: models.plain_vae, 2.0: models.generative}
    return quality, {alpha: _reconstruct(models, maps, vae) for alpha, vae in vaes.items()}


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
    measured: tuple[Quality, dict[float, Reconstruction]],
    maps: int,
    epochs: int,
) -> None:
    """Write the model card beside the weights."""
    quality, vaes = measured
    sizes = {name: (folder / name).stat().st_size / 1e6 for name in (PREDICTOR, *VAES.values())}
    lines = [
        "# Terrain models",
        "",
        "A compact CNN that predicts what it costs to cross each of 12 x 12 cells of a map, and",
        "two compact VAEs of such maps with 64 latents: a plain one, and one that was trained to",
        "keep predicted costs (alpha = 2). For `cfopt.load_terrain()`, demonstrations and tests;",
        "the maps are generated, and nothing here was trained on real ones.",
        "",
        "| file | what | size |",
        "|---|---|---|",
        f"| `{PREDICTOR}` | `CompactCNN` | {sizes[PREDICTOR]:.2f} MB |",
        *(
            f"| `{name}` | `CompactVAE`, alpha = {alpha:g} | {sizes[name]:.2f} MB |"
            for alpha, name in VAES.items()
        ),
        "",
        "## Training",
        f"- Data: `Terrain().generate({maps}, seed=0)`; stopped early by "
        f"`generate({max(maps // 10, 10)}, seed=1)`; tested on `generate({_MAPS}, seed=2)`.",
        f"- Command: `python -m cfopt.models.build --maps {maps} --epochs {epochs}` "
        "(`make models`), seeds fixed.",
        "- CNN: Adam, 12 epochs of MSE (2e-3), 6 of SPO+ (2e-4), batches of 64.",
        f"- VAEs: Adam at 1e-3 falling along a cosine, at most {epochs} epochs, batches of 64, the "
        "divergence warmed up over 2 epochs; the same for both values of alpha.",
        "- Stored in half precision, and measured as stored.",
        f"- cfopt {cfopt.__version__}, torch {torch.__version__.split('+')[0]}, NumPy "
        f"{np.__version__}, Python {platform.python_version()}.",
        "",
        f"## Measured on {_MAPS} test maps",
        "Predictor:",
        *(f"- {name.replace('_', ' ')}: {value:.4f}" for name, value in asdict(quality).items()),
        "",
        "| | " + " | ".join(f"alpha = {alpha:g}" for alpha in vaes) + " |",
        "|---|" + "---|" * len(vaes),
        _row("squared reconstruction error", [f"{v.error:.1f}" for v in vaes.values()]),
        _row("squared error of predicted costs", [f"{v.costs:.1f}" for v in vaes.values()]),
        _row("regret after reconstruction", [f"{v.regret:.2%}" for v in vaes.values()]),
        _row("the same of the truly best path", [f"{v.true_regret:.2%}" for v in vaes.values()]),
        _row("active latents of 64", [f"{v.mass.active}" for v in vaes.values()]),
        "",
    ]
    for alpha, value in vaes.items():
        text = value.mass.summary()
        lines += [f"Mass of the thickened sphere, alpha = {alpha:g}:", "", "```", text, "```", ""]
    (folder / CARD).write_text("\n".join(lines), encoding="utf-8")


def _row(name: str, values: list[str]) -> str:
    return f"| {name} | {' | '.join(values)} |"
