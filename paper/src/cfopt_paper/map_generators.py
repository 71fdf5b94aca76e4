"""The paper's conclusions with another generative model: that of maps which cfopt comes with."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import DEFAULT, MDMM, Sweep, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.map_boxes import ADVANTAGE, advantage
from cfopt_paper.map_runs import BETA, SHARPLY_JUDGED, map_runs, naive_runs
from cfopt_paper.study import Study

#: Without the sphere, and with the paper's weight of it.
_BETAS = (0.0, BETA)
GENERATORS = {"VAE": MDMM, "shipped": DEFAULT}
NAIVE = "naive"
_MEASURES = {
    "squared distance": "squared distance",
    "decision-focused error, %": "decision-focused error, %",
    SHARPLY_JUDGED: "the same under the sharp judge, %",
    "reconstruction error": "squared reconstruction error",
}


class Generators(Experiment):
    """Explanations with the paper's kind of VAE and with the shipped model, beside naive ones.

    The shipped model is sharp and anchored, and has an elliptical prior of its codes. The search is
    the default one; the VAE has alpha = 0, and errors are those of the VAE with alpha = 2 and, on
    generated maps, of the shipped sharp judge: neither takes part. The first is blurred, as the
    paper's is. The shipped models know generated maps only.
    """

    name = "maps-generators"
    title = "The paper's VAE beside the shipped model of maps"
    keys = ("generator", "beta")
    values = (*_MEASURES, "valid", "moved by the model", "passes", "solves", "seconds")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Naive search among pixels, and the default search with each model and beta."""
        tasks = study.scale.map_tasks
        known = [name for name in GENERATORS if name == "VAE" or study.data is None]
        plausible = [
            run
            for generator in known
            for beta in _BETAS
            for run in map_runs(tasks, "default", alpha=0.0, beta=beta, generator=generator)
        ]
        return [*naive_runs(study), *plausible]

    def rows(self, study: Study) -> pd.DataFrame:
        """Naive explanations have neither a model nor a beta."""
        return super().rows(study).fillna({"generator": NAIVE, "beta": 0.0})

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Means, and how much better the decision-focused error separates naive from plausible."""
        naive = rows[rows["generator"] == NAIVE]
        areas = []
        for (generator, beta), of in rows[rows["generator"] != NAIVE].groupby(
            ["generator", "beta"]
        ):
            mean, low, high = advantage(naive, of)
            point = {"generator": generator, "beta": beta, "measure": ADVANTAGE}
            areas.append({**point, "mean": mean, "low": low, "high": high, "count": len(of)})
        return pd.concat([super().summary(rows), pd.DataFrame(areas)], ignore_index=True)

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Distance and errors against beta, as far as there are any; naive ones as a level."""
        curves = {measure: summary[summary["measure"] == measure] for measure in _MEASURES}
        known = {measure: of for measure, of in curves.items() if of["mean"].notna().any()}
        figure, axes = panels(len(known), self.title, width=3.9)
        for one, (measure, of) in zip(axes, known.items(), strict=True):
            label = _MEASURES[measure]
            sweep = Sweep(one, _BETAS, "weight of the sphere beta", label)
            for generator, colour in GENERATORS.items():
                curve = of[of["generator"] == generator]
                sweep.curve(
                    curve, "beta", {"VAE": "VAE, alpha = 0"}.get(generator, generator), colour
                )
            level = of.loc[of["generator"] == NAIVE, "mean"].iloc[0]
            one.axhline(level, color="0.5", linestyle=":", label="naive")
            one.set_ylim(bottom=0)
            sweep.legend()
        return {self.name: figure}
