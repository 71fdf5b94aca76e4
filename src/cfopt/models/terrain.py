"""A trained pipeline on terrain maps, ready to be explained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import Tensor, nn

from cfopt.datasets.terrain import LAND, Terrain
from cfopt.generative.anchored import Anchored
from cfopt.generative.elliptical import Elliptical
from cfopt.generative.flow import Flow, FlowPrior
from cfopt.generative.textured import TexturedVAE
from cfopt.generative.vae import VAE, CompactVAE
from cfopt.pipeline import Pipeline
from cfopt.predictors.cnn import CompactCNN
from cfopt.problems import TerrainShortestPath
from cfopt.storage.weights import load_module

FOLDER = Path(__file__).parent / "terrain"
PREDICTOR = "cnn.safetensors"
#: The file of the VAE that was trained with each alpha.
VAES = {0.0: "vae-alpha-0.safetensors", 2.0: "vae-alpha-2.safetensors"}
#: The files of the sharp VAE, and of two priors of its codes: the one that explanations move, and
#: the one whose samples look like maps.
SHARP, ELLIPTICAL, FLOW = "sharp.safetensors", "elliptical.safetensors", "flow.safetensors"
#: The file of the sharp VAE of other maps, by which explanations are judged.
JUDGE = "judge.safetensors"
#: On how many maps, and for how many epochs, the models of a folder are trained.
TRAINING = "training.json"
#: Of the maps that the models were trained, stopped and tested with.
TRAINING_SEED, VALIDATION_SEED, TEST_SEED = 0, 1, 2


@dataclass(frozen=True)
class TerrainModels:
    """A map image, a CNN that says what it costs to cross each cell, and the shortest path.

    Arguments:
        pipeline: CNN and shortest paths on 12 x 12 cells.
        generative: the sharp VAE with an elliptical prior, anchored: for plausible explanations.
        prior: the sharp VAE with a flow as its prior, whose samples look like maps.
        sharp: the sharp VAE alone.
        judge: another sharp VAE, of other maps, which knows nothing of costs: what is left of an
            explanation when it redraws the map is not peculiar to the model that explained.
        cost_aware_vae: the paper's VAE with 64 codes, alpha = 2.
        plain_vae: the same, which knows nothing of costs, alpha = 0.
        maps: images that none of these has seen, `(N, 3, 96, 96)` in [0, 1].
        costs: the true costs of their cells, `(N, 144)`.
    """

    pipeline: Pipeline
    generative: Anchored
    prior: FlowPrior
    sharp: TexturedVAE
    judge: TexturedVAE
    cost_aware_vae: VAE
    plain_vae: VAE
    maps: Tensor
    costs: Tensor


def load_predictor(folder: Path = FOLDER) -> nn.Module:
    """The shipped CNN."""
    return load_module(folder / PREDICTOR, {"CompactCNN": CompactCNN})


def load_sharp(folder: Path = FOLDER, name: str = SHARP) -> TexturedVAE:
    """The shipped sharp VAE, or, by its file's name, the one that judges."""
    return cast(TexturedVAE, load_module(folder / name, {"TexturedVAE": TexturedVAE}))


def load_terrain(maps: int = 300, folder: Path = FOLDER) -> TerrainModels:
    """The shipped terrain pipeline with its models and some test maps; works offline."""
    tests = Terrain().generate(maps, seed=TEST_SEED)
    plain, aware = (
        load_module(folder / VAES[alpha], {"CompactVAE": CompactVAE}) for alpha in (0.0, 2.0)
    )
    sharp = load_sharp(folder)
    simple = cast(Elliptical, load_module(folder / ELLIPTICAL, {"Elliptical": Elliptical}))
    flow = cast(Flow, load_module(folder / FLOW, {"Flow": Flow}))
    return TerrainModels(
        pipeline=Pipeline(load_predictor(folder), TerrainShortestPath(12, 12, land=LAND)),
        generative=Anchored(FlowPrior(sharp, simple)).eval(),
        prior=FlowPrior(sharp, flow).eval(),
        sharp=sharp,
        judge=load_sharp(folder, JUDGE),
        cost_aware_vae=cast(VAE, aware),
        plain_vae=cast(VAE, plain),
        maps=tests.contexts(),
        costs=tests.costs,
    )
