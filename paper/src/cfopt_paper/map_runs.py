"""Explanations of maps: some tasks of the study, searched in one way, and judged."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import cfopt
from cfopt import metrics
from cfopt.question.plausibility import mean_norm
from cfopt_paper.job import Job, Report
from cfopt_paper.map_models import ALPHA, LATENTS, TrainVAE, map_data, map_pipeline
from cfopt_paper.study import Study

#: The weight of the sphere in the paper's experiments.
BETA = 10.0
#: The decision-focused error under the sharp VAE that comes with the package for this purpose.
SHARPLY_JUDGED = "decision-focused error, sharp judge, %"
#: Tasks of a job: few, so that little is lost when a run is stopped.
_TASKS = 8


@dataclass(frozen=True)
class MapTasks:
    """Maps that no model has seen, and the best paths of others, different from their own."""

    x0: Tensor
    wanted: Tensor


def map_tasks(study: Study) -> MapTasks:
    """The first half of the test maps, with true shortest paths of the second half."""
    return study.remember("map tasks", lambda: _map_tasks(study))


def _map_tasks(study: Study) -> MapTasks:
    tests, pipeline = map_data(study).tests, map_pipeline(study)
    count, half = study.scale.map_tasks, study.scale.test_maps // 2
    x0 = tests.contexts(slice(half - count, half))
    factual = pipeline.decide(x0)
    others = tests.paths[half:]
    wanted = [
        next(path for path in others.roll(-row, 0) if not torch.equal(path, own))
        for row, own in enumerate(factual.to(others))
    ]
    return MapTasks(x0, torch.stack(wanted))


def map_search(study: Study, name: str) -> cfopt.Search:
    """The paper's search with the settings and the stopping rule of its figures, or ours."""
    if name == "default":
        return cfopt.Auto()
    return cfopt.MDMM(
        step=0.003,
        max_steps=study.scale.map_steps,
        patience=50,
        counting=cfopt.Counting.ALL_STEPS,
    )


def naive(study: Study) -> dict[str, Any]:
    """How `cfopt.explain` searches among pixels, each of which stays what a pixel can be."""
    return {
        "search": cfopt.MDMM(max_steps=study.scale.map_steps),
        "features": cfopt.Features(lower=0.0, upper=1.0),
    }


@dataclass(frozen=True)
class MapRun(Job):
    """Absolute explanations of some maps, searched among codes.

    Arguments:
        search: "MDMM" or "default".
        alpha, latents: those of the VAE.
        plausibility: "sphere" or "log-likelihood".
        beta: its weight.
        generator: "VAE", or "shipped" for the model of maps that comes with the package, which is
            sharp, anchored and has an elliptical prior; it has no alpha.
        first, count: the first task, and the number of tasks.
    """

    search: str
    alpha: float = ALPHA
    latents: int = LATENTS
    plausibility: str = "sphere"
    beta: float = BETA
    generator: str = "VAE"
    first: int = 0
    count: int = _TASKS

    @property
    def name(self) -> str:
        """The name states all arguments."""
        model = f"alpha-{self.alpha:g}-latents-{self.latents}"
        model = model if self.generator == "VAE" else self.generator
        how = f"{self.plausibility}-{self.beta:g}-{self.search}"
        return f"map-{model}-{how}-tasks-{self.first}-{self.first + self.count}".lower()

    def needs(self) -> tuple[Job, ...]:
        """The VAE of the search, and the one that judges."""
        own = (TrainVAE(self.alpha, self.latents),) if self.generator == "VAE" else ()
        return (*own, TrainVAE())

    def seconds(self, study: Study) -> float:
        """The time grows with the number of tasks, and of steps where these are limited."""
        if self.search == "default":
            return 1.6 * self.count
        return 3.5 * self.count * min(1.0, study.scale.map_steps / 1000)

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Explain, and judge what was found."""
        penalty = {"sphere": cfopt.Sphere, "log-likelihood": cfopt.LogLikelihood}
        table = explain_maps(
            study,
            slice(self.first, self.first + self.count),
            report,
            search=map_search(study, self.search),
            generative=self._generative(study),
            plausibility=penalty[self.plausibility](self.beta),
        )
        about = {
            "search": self.search,
            "alpha": self.alpha,
            "latents": self.latents,
            "plausibility": self.plausibility,
            "beta": self.beta,
            "generator": self.generator,
        }
        return pd.DataFrame({**about, **table})

    def _generative(self, study: Study) -> cfopt.GenerativeModel:
        if self.generator == "VAE":
            return TrainVAE(self.alpha, self.latents).load(study)
        return _shipped(study).generative


@dataclass(frozen=True)
class NaiveRun(Job):
    """Absolute explanations of some maps, searched among pixels: adversarial ones.

    Arguments:
        first, count: the first task, and the number of tasks.
    """

    first: int = 0
    count: int = _TASKS

    @property
    def name(self) -> str:
        """The name states which tasks it covers."""
        return f"map-naive-tasks-{self.first}-{self.first + self.count}"

    def needs(self) -> tuple[Job, ...]:
        """The VAE that judges."""
        return (TrainVAE(),)

    def seconds(self, study: Study) -> float:
        """The time grows with the number of tasks."""
        return 0.5 * self.count

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Explain with MDMM in feature space, and judge what was found."""
        table = explain_maps(
            study, slice(self.first, self.first + self.count), report=report, **naive(study)
        )
        return pd.DataFrame({"search": "naive", **table})


def map_runs(tasks: int, search: str, **settings: Any) -> list[MapRun]:
    """One point, a few tasks at a time.

    Arguments:
        tasks: how many, the same for all points that are compared with each other.
        search, settings: the arguments of `MapRun`.
    """
    point = MapRun(search, **settings)
    return [replace(point, first=first, count=count) for first, count in _slices(tasks)]


def naive_runs(study: Study) -> list[NaiveRun]:
    """All map tasks of a study, searched among pixels."""
    return [NaiveRun(first, count) for first, count in _slices(study.scale.map_tasks)]


def _shipped(study: Study) -> cfopt.TerrainModels:
    return study.remember("shipped", lambda: cfopt.load_terrain(maps=1))


def _slices(total: int) -> list[tuple[int, int]]:
    return [(first, min(_TASKS, total - first)) for first in range(0, total, _TASKS)]


def explain_maps(study: Study, which: slice, report: Report, **how: Any) -> dict[str, Any]:
    """Explain some tasks, and report how each ended; without a valid answer there are no errors.

    Errors of reconstruction and of the decision after it are those of the cost-aware VAE; on
    generated maps, which it knows, also those of the sharp VAE that comes with the package. The
    judged loss measures plausibility with the cost-aware VAE's code of what was found, with
    beta = 10.

    Arguments:
        study: the study whose tasks they are.
        which: the tasks to take.
        report: called with the progress.
        how: search and other arguments of `cfopt.explain`.
    """
    tasks, pipeline, judge = map_tasks(study), map_pipeline(study), TrainVAE().load(study)
    x0, wanted = tasks.x0[which], tasks.wanted[which]
    start = time.process_time()
    e = cfopt.explain(
        x0,
        pipeline,
        cfopt.Absolute(wanted),
        on_progress=lambda progress: report(1 - progress.running / progress.total),
        **how,
    )
    seconds = time.process_time() - start
    valid = e.valid
    moved = e.latent is not None and e.reconstruction_moved
    norm = torch.full_like(e.loss, torch.nan) if e.z is None else e.z.norm(dim=1)
    squared = e.distance.square()
    sharp = torch.full_like(squared, torch.nan)
    if study.data is None:
        sharp = metrics.decision_focused_error(e.x, pipeline, _shipped(study).judge)
    deviation = judge.encode(e.x).norm(dim=1).detach() - mean_norm(judge.latent_dim)
    found = {
        "loss": e.loss,
        "squared distance": squared,
        "judged loss": squared + BETA * deviation.square(),
        "norm": norm,
        "reconstruction error": metrics.reconstruction_error(e.x, judge),
        "decision-focused error, %": 100 * metrics.decision_focused_error(e.x, pipeline, judge),
        SHARPLY_JUDGED: 100 * sharp,
    }
    return {
        "task": list(range(*which.indices(study.scale.map_tasks))),
        "status": [str(status) for status in e.status],
        "valid": valid.tolist(),
        **{name: torch.where(valid, value, torch.nan).tolist() for name, value in found.items()},
        "moved by the model": moved.tolist() if isinstance(moved, Tensor) else [False] * len(e),
        "steps": e.steps.tolist(),
        "passes": e.passes.tolist(),
        "solves": e.solves.tolist(),
        "seconds": seconds / len(e),
    }
