"""The effect of the code size."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import DEFAULT, MDMM, Sweep, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.map_alpha import Reconstruct
from cfopt_paper.map_models import TrainVAE
from cfopt_paper.map_runs import map_runs
from cfopt_paper.study import Study

_REGRET, _ERROR = "regret, predicted costs, %", "squared reconstruction error"


class Latents(Experiment):
    """Reconstructions and explanations with codes of several sizes, alpha = 2."""

    name = "maps-latents"
    title = "Codes of several sizes"
    keys = ("search", "latents")
    values = (_REGRET, _ERROR, "loss", "squared distance", "valid", "steps", "passes", "solves")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Reconstruction of the test maps, and both searches, for each size."""
        sizes = study.scale.latents
        rebuilt = [Reconstruct(TrainVAE(latents=latents)) for latents in sizes]
        runs = [
            run
            for search in ("MDMM", "default")
            for latents in sizes
            for run in map_runs(study.scale.other_map_tasks, search, latents=latents)
        ]
        return [*rebuilt, *runs]

    def rows(self, study: Study) -> pd.DataFrame:
        """Reconstructed maps are rows of their own, which belong to no search."""
        return super().rows(study).fillna({"search": "reconstruction"})

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Regret and error of reconstructions, and the loss of explanations."""
        figure, axes = panels(3, self.title, width=3.9)
        charts = {
            "regret after reconstruction, %": (_REGRET, {"reconstruction": MDMM}),
            _ERROR: (_ERROR, {"reconstruction": MDMM}),
            "loss of the best explanation": ("loss", {"MDMM": MDMM, "default": DEFAULT}),
        }
        for one, (label, (measure, curves)) in zip(axes, charts.items(), strict=True):
            sweep = Sweep(one, study.scale.latents, "number of latents", label)
            for search, colour in curves.items():
                of = summary[(summary["measure"] == measure) & (summary["search"] == search)]
                sweep.curve(
                    of, "latents", f"{search} search" if len(curves) > 1 else "ours", colour
                )
            one.set_ylim(bottom=0)
            sweep.legend()
        return {self.name: figure}
