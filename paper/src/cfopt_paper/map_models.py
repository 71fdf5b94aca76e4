"""Maps and the models trained on them: the CNN, and a VAE for each alpha and code size."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import cast

import pandas as pd
import torch
from torch import nn

import cfopt
from cfopt.datasets import Maps, Terrain, warcraft
from cfopt.generative import VAE, Batch, CompactVAE, ConvolutionalVAE, Epoch, Training, train
from cfopt.models.terrain import (
    FOLDER,
    TEST_SEED,
    TRAINING_SEED,
    VAES,
    VALIDATION_SEED,
    load_predictor,
)
from cfopt.predictors import MSE, CompactCNN, PartialResNet, fit
from cfopt.storage.weights import load_module, save_module
from cfopt_paper.job import Job, Report
from cfopt_paper.study import Study

#: The code size and the alpha that the paper settles on.
LATENTS, ALPHA = 64, 2.0
#: Maps a second in the training of compact models, and of the paper's.
_SPEED = {False: 350.0, True: 100.0}
_CNN_EPOCHS = 20
_VAES: dict[str, type[nn.Module]] = {
    "CompactVAE": CompactVAE,
    "ConvolutionalVAE": ConvolutionalVAE,
}


@dataclass(frozen=True)
class MapData:
    """Maps to train, to stop and to test with."""

    training: Maps
    validation: Maps
    tests: Maps


def map_data(study: Study) -> MapData:
    """The study's maps: generated, or the published ones."""
    return study.remember("maps", lambda: _map_data(study))


def _map_data(study: Study) -> MapData:
    scale = study.scale
    counts = (scale.training_maps, scale.validation_maps, scale.test_maps)
    if study.data is not None:
        splits = (warcraft.load(study.data, split) for split in ("train", "val", "test"))
        return MapData(*(maps[:count] for maps, count in zip(splits, counts, strict=True)))
    seeds = (TRAINING_SEED, VALIDATION_SEED, TEST_SEED)
    # Ten apart, so that no two studies share maps.
    return MapData(
        *(
            Terrain().generate(count, seed=10 * study.seed + seed)
            for count, seed in zip(counts, seeds, strict=True)
        )
    )


@dataclass(frozen=True)
class TrainCNN(Job):
    """The predictor of cell costs.

    The compact one on generated maps is the one that comes with the package.
    """

    @property
    def name(self) -> str:
        """A study has only one such job."""
        return "cnn"

    def seconds(self, study: Study) -> float:
        """An estimate from the speed of training."""
        if study.scale.shipped_models and study.data is None:
            return 0.1
        return _CNN_EPOCHS * study.scale.training_maps / _SPEED[study.scale.paper_models] / 2

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Train with the mean squared error, until the validation loss rises."""
        path = study.models / f"{self.name}.safetensors"
        if study.scale.shipped_models and study.data is None:
            save_module(load_predictor(), path)
            return pd.DataFrame({"shipped": [True]})
        data = map_data(study)
        rows, cols = data.tests.rows, data.tests.cols
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(study.seed)
            predictor = PartialResNet(rows, cols) if study.scale.paper_models else CompactCNN()
        losses = fit(
            predictor,
            data.training.images,
            data.training.costs,
            MSE(),
            epochs=_CNN_EPOCHS,
            learning_rate=5e-4 if study.scale.paper_models else 2e-3,
            batch_size=64,
            validation=(data.validation.images, data.validation.costs),
            patience=4,
            generator=torch.Generator().manual_seed(study.seed),
            on_epoch=lambda epoch, loss: report(epoch / _CNN_EPOCHS),
        )
        save_module(predictor, path)
        epochs = range(1, len(losses) + 1)
        return pd.DataFrame({"epoch": epochs, "loss": losses, "shipped": False})


def map_pipeline(study: Study) -> cfopt.Pipeline:
    """The trained CNN with shortest paths across the maps."""

    def load() -> cfopt.Pipeline:
        known = {"CompactCNN": CompactCNN, "PartialResNet": PartialResNet}
        predictor = load_module(study.models / f"{TrainCNN().name}.safetensors", known)
        return cfopt.Pipeline(predictor, map_data(study).tests.problem)

    return study.remember("pipeline", load)


@dataclass(frozen=True)
class TrainVAE(Job):
    """A VAE, the plain one for alpha = 0; the same optimiser and epochs for all.

    Arguments:
        alpha: the weight of costs.
        latents: the size of a code.
        as_in_the_paper: whether it has the paper's architecture, whatever the study's others have.
    """

    alpha: float = ALPHA
    latents: int = LATENTS
    as_in_the_paper: bool = False

    @property
    def name(self) -> str:
        """The name states alpha, the code size, and an architecture of its own."""
        other = "-convolutional" if self.as_in_the_paper else ""
        return f"vae-alpha-{self.alpha:g}-latents-{self.latents}{other}"

    def needs(self) -> tuple[Job, ...]:
        """The predictor, whose costs are to be kept."""
        return (TrainCNN(),)

    def seconds(self, study: Study) -> float:
        """An estimate from the speed of training."""
        scale = study.scale
        if self._shipped(study):
            return 0.1
        return 1 + scale.epochs * scale.training_maps / _SPEED[self._large(study)]

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Train, save the best weights, and report the losses of each epoch."""
        path = study.models / f"{self.name}.safetensors"
        if self._shipped(study):
            shipped = load_module(FOLDER / VAES[self.alpha], _VAES)
            save_module(shipped, path, torch.float16)
            return pd.DataFrame({"shipped": [True]})
        data, epochs = map_data(study), study.scale.epochs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(study.seed)
            vae = self._new(data.training, self._large(study))

        def watch(progress: Batch | Epoch) -> None:
            if isinstance(progress, Batch):
                report((progress.epoch - 1 + progress.done / progress.total) / epochs)

        checkpoint = study.models / f"{self.name}.checkpoint"
        with warnings.catch_warnings():
            # A collapse is on record in the table, as the number of active latents.
            warnings.simplefilter("ignore", UserWarning)
            history = train(
                vae,
                data.training.images,
                data.validation.images,
                Training(alpha=self.alpha, epochs=epochs, seed=study.seed),
                predictor=map_pipeline(study).predictor,
                checkpoint=checkpoint,
                on_progress=watch,
            )
        # In half precision, as the shipped ones are.
        save_module(vae, path, torch.float16)
        checkpoint.unlink()
        return pd.DataFrame([asdict(epoch) for epoch in history])

    def _shipped(self, study: Study) -> bool:
        """Whether this very VAE comes with the package."""
        ours = study.scale.shipped_models and study.data is None and study.seed == 0
        usual = self.latents == LATENTS and not self.as_in_the_paper
        return ours and usual and self.alpha in VAES

    def _large(self, study: Study) -> bool:
        return self.as_in_the_paper or study.scale.paper_models

    def _new(self, maps: Maps, large: bool) -> VAE:
        height, width = maps.images.shape[2:]
        if large:
            return ConvolutionalVAE(self.latents, height, width)
        return CompactVAE(self.latents, maps.rows, maps.cols, height // maps.rows)

    def load(self, study: Study) -> VAE:
        """The trained model."""
        path = study.models / f"{self.name}.safetensors"
        return study.remember(self.name, lambda: cast(VAE, load_module(path, _VAES)))
