"""The effect of the penalty on implausible codes, against its weight beta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import DEFAULT, MDMM, SEARCH_COLOURS, SearchCharts, Sweep, panels, ticks
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.map_runs import map_runs
from cfopt_paper.paper import paper_values
from cfopt_paper.study import Study

_BETA = "Plausibility regularisation weight beta"
#: The paper's errors against beta are means over the 3 x 96 x 96 values of a map.
PIXELS = 27_648


class _AgainstBeta(Experiment):
    """An error of explanations that the alpha = 0 VAE found, as the alpha = 2 VAE sees it.

    The search uses the VAE that knows nothing of costs, so that the judge is another one. The
    paper says so of its box plots only; its medians there agree with its curves at beta = 10.
    """

    keys = ("search", "beta")
    #: The error, the title of the paper's figure, and the factor of its values.
    error: ClassVar[str]
    figure: ClassVar[str]
    factor: ClassVar[float] = 1.0

    def jobs(self, study: Study) -> Sequence[Job]:
        """Both searches with each beta."""
        return [
            run
            for search in SEARCH_COLOURS
            for beta in study.scale.betas
            for run in map_runs(study.scale.map_tasks, search, alpha=0.0, beta=beta)
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The error, the fraction of tasks with an answer, and the solver calls."""
        paper = paper_values(self.figure, "sphere")
        charts = SearchCharts(
            self.title,
            "beta",
            _BETA,
            study.scale.betas,
            self.error,
            self.error,
            paper.assign(value=self.factor * paper["value"]),
        )
        return {self.name: charts.draw(summary)}


class BetaReconstruction(_AgainstBeta):
    """The reconstruction error of explanations against beta (Figure 6)."""

    name = "maps-beta-reconstruction"
    title = "How well explanations survive reconstruction, by the weight of the sphere"
    values = ("reconstruction error", "valid", "norm", "steps", "passes", "solves")
    error = "reconstruction error"
    figure = "warcraft: mean squared reconstruction error of x_best vs beta"
    factor = PIXELS


class BetaDecision(_AgainstBeta):
    """The decision-focused reconstruction error of explanations against beta (Figure 8)."""

    name = "maps-beta-decision"
    title = "How well the decisions of explanations survive reconstruction"
    values = ("decision-focused error, %", "valid", "norm", "steps", "passes", "solves")
    error = "decision-focused error, %"
    figure = "warcraft: decision-focused reconstruction error (%) vs beta"


class BetaLoss(Experiment):
    """The loss with the sphere and with the log-likelihood, against beta (Figure 9)."""

    name = "maps-beta-loss"
    title = "The price of plausibility: sphere beside log-likelihood"
    keys = ("search", "plausibility", "beta")
    values = ("loss", "squared distance", "norm", "valid", "steps", "passes", "solves")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Both searches with both penalties; without a weight they are the same."""
        tasks = study.scale.other_map_tasks
        return [
            run
            for search in SEARCH_COLOURS
            for penalty in ("sphere", "log-likelihood")
            for beta in study.scale.betas
            if beta > 0 or penalty == "sphere"
            for run in map_runs(tasks, search, plausibility=penalty, beta=beta)
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The loss of each search, on a logarithmic scale."""
        figure, axes = panels(2, self.title)
        paper = {
            penalty: paper_values("warcraft: loss of best explanation vs beta", penalty)
            for penalty in ("sphere", "log-likelihood")
        }
        values = ticks(study.scale.betas, *(known["x"] for known in paper.values()))
        loss = summary[summary["measure"] == "loss"]
        for one, search in zip(axes, SEARCH_COLOURS, strict=True):
            sweep = Sweep(one, values, _BETA, "loss of the best explanation (log scale)")
            for (penalty, known), colour in zip(paper.items(), (MDMM, DEFAULT), strict=True):
                of = loss[(loss["search"] == search) & (loss["plausibility"] == penalty)]
                sweep.curve(of, "beta", penalty, colour)
                sweep.paper(known, f"paper, {penalty}", colour)
            sweep.logarithmic()
            one.set_title(f"{search} search", fontsize=10)
            sweep.legend()
        return {self.name: figure}
