"""Whether explanations of maps look like maps: naive, plausible in several ways, and edits.

`python -m benchmarks plausibility --maps 80` explains so many maps that no setting was chosen on.
What is found is kept in build/plausibility, a file for a few maps each, and taken from there by
the next run; delete the folder to begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cfopt
from benchmarks.true_terrain import TrueTerrain
from cfopt import metrics
from cfopt.datasets import Terrain
from cfopt.generative import Anchored
from cfopt.search import Edits
from cfopt.search.broad_codes import BroadCodes
from cfopt.search.fallback import Fallback
from cfopt.search.trust_region import LatentSequential
from cfopt.storage import weights

#: Of the maps: one that models and settings never saw.
SEED = 71
#: How many maps are explained at once and kept in one file.
_AT_ONCE = 8
#: Samples of a prior, and real maps that they are compared with.
_SAMPLES = 1000
BETA = 10.0
_FOLDER = Path("build/plausibility")


@dataclass(frozen=True)
class Answers:
    """What one way of explaining found: contexts, which are valid, and what it took, `(N, ...)`.

    Arguments:
        x: the contexts.
        valid: which were verified.
        moved: where the model alone changed the decision; NaN without a model.
        passes: passes through the predictor.
        seconds: of one process, CPU time.
    """

    x: Tensor
    valid: Tensor
    moved: Tensor
    passes: Tensor
    seconds: Tensor


def compare(count: int) -> list[dict[str, Any]]:
    """All ways on the same maps, by the same measures; the old VAE is the first plausible one."""
    models = cfopt.load_terrain(300)
    x0, others = halves(count)
    wanted = models.pipeline.decide(others)
    rows = []
    for name, options in (ways(models) | truth(count)).items():
        found = explain(name, models.pipeline, x0, wanted, options)
        rows.append({"explanations": name} | _measures(models, found, x0, others))
    return rows


def ways(models: cfopt.TerrainModels) -> dict[str, dict[str, Any]]:
    """What each way of explaining passes to `explain`, by its name."""
    sphere = cfopt.Sphere(BETA)
    return {
        "naive, among pixels": {"search": cfopt.MDMM()},
        "VAE, 64 codes, alpha = 0": {"generative": models.plain_vae, "plausibility": sphere},
        "sharp VAE": {"generative": models.sharp},
        "sharp VAE, anchored": {"generative": Anchored(models.sharp)},
        "sharp VAE, anchored, prior": {"generative": models.generative, "plausibility": sphere},
        "edits": {"search": Edits(), "reference": models.maps[-100:]},
    }


def truth(count: int) -> dict[str, dict[str, Any]]:
    """The same for the process that made the maps, in place of a model that was learned from them.

    It says nothing about how undecided it is, and its terrains have hard borders; so each unit of
    change costs less, or else few maps would have an answer.
    """
    climb = LatentSequential(restarts=0, approaches=1, polishes=0)
    searches = (
        BroadCodes(climb, stray=0.5),
        BroadCodes(climb, stray=0.125),
        BroadCodes(LatentSequential(), directions=240, stray=0.125),
    )
    model = Anchored(TrueTerrain(2 * count, SEED))
    options = {"generative": model, "plausibility": cfopt.Sphere(BETA)}
    return {"the maps' own process": options | {"search": Fallback(searches)}}


def halves(count: int) -> tuple[Tensor, Tensor]:
    """Maps to explain, and as many others, whose paths are asked for.

    In turn, so that more maps begin with the same ones, and what is kept serves them, too.
    """
    maps = Terrain().generate(2 * count, seed=SEED).contexts()
    return maps[::2], maps[1::2]


def models_alone() -> list[dict[str, Any]]:
    """The models without any question: samples and reconstructions beside real maps."""
    models = cfopt.load_terrain(1)
    real, others = (Terrain().generate(_SAMPLES, seed=SEED + k).contexts() for k in (1, 2))
    features = metrics.predictor_features(models.pipeline.predictor, real)
    usual = metrics.predictor_features(models.pipeline.predictor, others)
    rows: list[dict[str, Any]] = [
        {
            "model": "real maps",
            "Frechet distance of samples": metrics.frechet_distance(usual, features),
            "squared error": 0.0,
            "regret after reconstruction, %": 0.0,
            "gradient energy": 1.0,
            "moved by model, %": 0.0,
        }
    ]
    for name, model in (
        ("VAE, alpha = 0", models.plain_vae),
        ("VAE, alpha = 2", models.cost_aware_vae),
        ("sharp VAE", models.sharp),
        ("sharp VAE, prior", models.prior),
        ("judge, another sharp VAE", models.judge),
    ):
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            codes = torch.randn((_SAMPLES, model.latent_dim), generator=generator)
            samples = torch.cat([model.decode(z) for z in torch.split(codes, 100)])
            parts = torch.split(others, 100)
            remade = torch.cat([model.decode(model.encode(part)) for part in parts])
        seen = metrics.predictor_features(models.pipeline.predictor, samples)
        before, after = (models.pipeline.decide(part) for part in (others, remade))
        regret = models.pipeline.regret(remade, before)
        rows.append(
            {
                "model": name,
                "Frechet distance of samples": metrics.frechet_distance(seen, features),
                "squared error": float((remade - others).square().flatten(1).sum(1).mean()),
                "regret after reconstruction, %": 100 * float(regret.mean()),
                "gradient energy": metrics.sharpness(remade, others)[0],
                "moved by model, %": 100 * float((before != after).any(1).double().mean()),
            }
        )
    return rows


def _measures(
    models: cfopt.TerrainModels, found: Answers, x0: Tensor, others: Tensor
) -> dict[str, Any]:
    ok = found.valid
    x, before = found.x[ok], x0[ok]
    predictor = models.pipeline.predictor
    error, blurred = (
        100 * metrics.decision_focused_error(x, models.pipeline, judge)
        for judge in (models.judge, models.cost_aware_vae)
    )
    slope, bend = metrics.sharpness(x, before)
    features = (metrics.predictor_features(predictor, part) for part in (x, others))
    return {
        "maps": len(ok),
        "valid, %": 100 * float(ok.double().mean()),
        "distance, median": float((x - before).flatten(1).norm(dim=1).median()),
        "pixels moved, median %": 100 * float(metrics.pixels_moved(x, before).median()),
        "gradient energy": slope,
        "Laplacian": bend,
        "Frechet distance": metrics.frechet_distance(*features),
        "decision-focused error, median %": float(error.median()),
        "mean %": float(error.mean()),
        "the same under the alpha = 2 VAE, median %": float(blurred.median()),
        "two-sample AUC": metrics.two_sample_auc(x, others),
        "moved by model, %": 100 * float(found.moved.nanmean()),
        "passes a task": float(found.passes.double().mean()),
        "CPU seconds a task": float(found.seconds.sum() / len(ok)),
    }


def explain(
    name: str, pipeline: cfopt.Pipeline, x0: Tensor, wanted: Tensor, options: dict[str, Any]
) -> Answers:
    """Explain a few maps at a time, or take from the folder what was found before."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    slug = "".join(letter if letter.isalnum() else "-" for letter in name)
    parts = []
    for first in range(0, len(x0), _AT_ONCE):
        rows = slice(first, min(first + _AT_ONCE, len(x0)))
        path = _FOLDER / f"{slug}-{rows.start}-{rows.stop}.safetensors"
        parts.append(_kept(path, partial(_answers, pipeline, x0[rows], wanted[rows], options)))
    return Answers(**{key: torch.cat([part[key] for part in parts]) for key in parts[0]})


def _answers(
    pipeline: cfopt.Pipeline, x0: Tensor, wanted: Tensor, options: dict[str, Any]
) -> dict[str, Tensor]:
    start = time.process_time()
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), **options)
    took = (time.process_time() - start) / len(e)
    nothing = torch.full((len(e),), torch.nan)
    return {
        "x": e.x,
        "valid": e.valid,
        "moved": nothing if e.latent is None else e.reconstruction_moved.float(),
        "passes": e.passes,
        "seconds": torch.full((len(e),), took),
    }


def _kept(path: Path, find: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    if path.exists():
        return weights.read(path)[0]
    found = find()
    weights.write(path, found, {})
    return found
