"""A trained pipeline on terrain maps, ready to be explained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import Tensor, nn

from cfopt.datasets.terrain import LAND, Terrain
from cfopt.generative.vae import VAE, CompactVAE
from cfopt.pipeline import Pipeline
from cfopt.predictors.cnn import CompactCNN
from cfopt.problems import TerrainShortestPath
from cfopt.storage.weights import load_module

FOLDER = Path(__file__).parent / "terrain"
PREDICTOR = "cnn.safetensors"
#: The file of the VAE that was trained with each alpha.
VAES = {0.0: "vae-alpha-0.safetensors", 2.0: "vae-alpha-2.safetensors"}
#: The file of the sharp VAE.
SHARP = "sharp.safetensors"
#: Of the maps that the models were trained, stopped and tested with.
TRAINING_SEED, VALIDATION_SEED, TEST_SEED = 0, 1, 2


@dataclass(frozen=True)
class TerrainModels:
    """A map image, a CNN that says what it costs to cross each cell, and the shortest path.

    Arguments:
        pipeline: CNN and shortest paths on 12 x 12 cells.
        generative: the cost-aware VAE, alpha = 2.
        plain_vae: the VAE that knows nothing of costs, alpha = 0.
        maps: images that none of these has seen, `(N, 3, 96, 96)` in [0, 1].
        costs: the true costs of their cells, `(N, 144)`.
    """

    pipeline: Pipeline
    generative: VAE
    plain_vae: VAE
    maps: Tensor
    costs: Tensor


def load_predictor(folder: Path = FOLDER) -> nn.Module:
    """The shipped CNN."""
    return load_module(folder / PREDICTOR, {"CompactCNN": CompactCNN})


def load_terrain(maps: int = 300, folder: Path = FOLDER) -> TerrainModels:
    """The shipped terrain pipeline with its VAEs and so many test maps; works offline."""
    tests = Terrain().generate(maps, seed=TEST_SEED)
    plain, aware = (
        load_module(folder / VAES[alpha], {"CompactVAE": CompactVAE}) for alpha in (0.0, 2.0)
    )
    return TerrainModels(
        pipeline=Pipeline(load_predictor(folder), TerrainShortestPath(12, 12, land=LAND)),
        generative=cast(VAE, aware),
        plain_vae=cast(VAE, plain),
        maps=tests.contexts(),
        costs=tests.costs,
    )
