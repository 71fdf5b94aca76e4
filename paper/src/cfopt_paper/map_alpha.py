"""The effect of cost-aware training on reconstructions and on explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from matplotlib.figure import Figure

from cfopt import metrics
from cfopt_paper.charts import DEFAULT, MDMM, SEARCH_COLOURS, SearchCharts, Sweep, panels, ticks
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job, Report
from cfopt_paper.map_models import TrainVAE, map_data, map_pipeline
from cfopt_paper.map_runs import map_runs
from cfopt_paper.paper import paper_values
from cfopt_paper.study import Study

_ALPHA = "Cost-aware regularisation weight alpha"
_REGRETS = {"true costs": "regret, true costs, %", "predicted costs": "regret, predicted costs, %"}
_ERROR = "squared reconstruction error"


@dataclass(frozen=True)
class Reconstruct(Job):
    """What is left of the test maps after a VAE.

    Arguments:
        vae: the VAE.
    """

    vae: TrainVAE

    @property
    def name(self) -> str:
        """The name states the settings of the VAE."""
        return f"reconstruction-{self.vae.name}"

    def needs(self) -> tuple[Job, ...]:
        """The VAE."""
        return (self.vae,)

    def seconds(self, study: Study) -> float:
        """The time grows with the number of maps."""
        return study.scale.test_maps / 200

    @torch.no_grad()
    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """The paper's three metrics, for each map."""
        tests, pipeline = map_data(study).tests, map_pipeline(study)
        vae, x = self.vae.load(study), tests.contexts()
        rebuilt = torch.cat([vae(batch) for batch in torch.split(x, 250)])
        found = {
            "regret, true costs, %": 100 * pipeline.regret(rebuilt, tests.paths),
            "regret, predicted costs, %": 100 * metrics.decision_focused_error(x, pipeline, vae),
            _ERROR: metrics.reconstruction_error(x, vae),
        }
        settings = {"alpha": self.vae.alpha, "latents": self.vae.latents}
        about = {**settings, "task": range(len(x))}
        return pd.DataFrame({**about, **{name: value.tolist() for name, value in found.items()}})


class AlphaRegret(Experiment):
    """Regret and reconstruction error after reconstruction, against alpha (Figure 4)."""

    name = "maps-alpha-regret"
    title = "What is left of a map and its path after the VAE"
    keys = ("alpha",)
    values = (*_REGRETS.values(), _ERROR)

    def jobs(self, study: Study) -> Sequence[Job]:
        """One VAE for each alpha."""
        return [Reconstruct(TrainVAE(alpha)) for alpha in study.scale.alphas]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Regrets on the left, the error on the right."""
        figure, (left, right) = panels(2, self.title)
        regret, error = (
            "warcraft: relative regret (%) after reconstruction vs alpha",
            "warcraft: squared L2 reconstruction error vs alpha",
        )
        values = ticks(study.scale.alphas, paper_values(regret, "true costs")["x"])
        sweep = Sweep(left, values, _ALPHA, "relative regret, %")
        for (series, measure), colour in zip(_REGRETS.items(), (MDMM, DEFAULT), strict=True):
            of = summary[summary["measure"] == measure]
            sweep.curve(of, "alpha", series, colour)
            sweep.paper(paper_values(regret, series), f"paper, {series}", colour)
        sweep.legend()
        sweep = Sweep(right, values, _ALPHA, "squared reconstruction error")
        sweep.curve(summary[summary["measure"] == _ERROR], "alpha", "ours", MDMM)
        sweep.paper(paper_values(error, "reconstruction"))
        sweep.legend()
        return {self.name: figure}


class AlphaLoss(Experiment):
    """The loss of the best explanation against alpha (Figure 5)."""

    name = "maps-alpha-loss"
    title = "How near explanations are, with VAEs of several alpha"
    keys = ("search", "alpha")
    values = ("loss", "judged loss", "valid", "steps", "passes", "solves")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Both searches with each VAE, beta = 10."""
        return [
            run
            for search in SEARCH_COLOURS
            for alpha in study.scale.alphas
            for run in map_runs(study.scale.map_tasks, search, alpha=alpha)
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The loss, the fraction of tasks with an answer, and the solver calls."""
        charts = SearchCharts(
            self.title,
            "alpha",
            _ALPHA,
            study.scale.alphas,
            "loss",
            "loss of the best explanation",
            paper_values("warcraft: loss of best explanation vs alpha", "loss"),
        )
        return {self.name: charts.draw(summary)}
