"""The sphere of typical codes: does the data lie there, and is it the best region?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from cfopt.drawing.mpl import INK
from cfopt.plots.style import OBSTACLES
from cfopt.question.plausibility import encoded_mass, mean_norm
from cfopt_paper.charts import DEFAULT, MDMM, Sweep, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job, Report
from cfopt_paper.map_models import LATENTS, TrainVAE, map_data
from cfopt_paper.paper import paper_values
from cfopt_paper.region import optimal_region, thin_sphere_threshold
from cfopt_paper.study import Study

KAPPAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
#: The eta from which on the paper finds the thin sphere to be optimal.
PAPER_ETA = 1e-16


@dataclass(frozen=True)
class EncodedMass(Job):
    """How much of the training data a VAE encodes near the sphere.

    Arguments:
        vae: the VAE; by default that of alpha = 2.
    """

    vae: TrainVAE = field(default_factory=TrainVAE)

    @property
    def name(self) -> str:
        """The name states the settings of the VAE."""
        return f"encoded-mass-{self.vae.name}"

    def needs(self) -> tuple[Job, ...]:
        """The VAE."""
        return (self.vae,)

    def seconds(self, study: Study) -> float:
        """The time grows with the number of maps."""
        return study.scale.training_maps / 1000

    @torch.no_grad()
    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Encode the training maps, and count those near the sphere."""
        vae, images = self.vae.load(study), map_data(study).training.images
        codes = [vae.distribution(batch.float() / 255) for batch in torch.split(images, 500)]
        means = torch.cat([code.mean for code in codes])
        table = encoded_mass(means, torch.cat([code.log_variance for code in codes]), KAPPAS)
        norm = table.mean_norm_of_means
        return table.to_dataframe().assign(active=table.active, **{"norm of mean codes": norm})


class Mass(Experiment):
    """The mass of the thickened sphere under the prior and under encoded data (Table 1)."""

    name = "maps-mass"
    title = "How much lies within kappa of the sphere of typical codes"
    keys = ("kappa",)
    values = ("prior", "mean codes", "sampled codes", "active", "norm of mean codes")

    def jobs(self, study: Study) -> Sequence[Job]:
        """One pass over the training data."""
        return [EncodedMass()]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The fractions against kappa."""
        figure, (axes,) = panels(1, self.title, width=6.5)
        sweep = Sweep(axes, KAPPAS, "half the thickness kappa", "fraction of codes inside")
        colours = {"prior": INK, "mean codes": OBSTACLES[0], "sampled codes": MDMM}
        for measure, colour in colours.items():
            sweep.curve(summary[summary["measure"] == measure], "kappa", measure, colour)
        table = "table: mass of the thickened hypersphere (n_z=64) vs kappa"
        sweep.paper(paper_values(table, "encoded data"), "paper, encoded data", DEFAULT)
        sweep.legend()
        return {self.name: figure}


@dataclass(frozen=True)
class BestRegion(Job):
    """The best shell `a <= |z| <= b` for weights eta of its volume around the threshold."""

    @property
    def name(self) -> str:
        """A study has only one such job."""
        return "best-region"

    def seconds(self, study: Study) -> float:
        """It takes about a second."""
        return 1.0

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Solve the problem of Appendix A.2 for each eta, in logarithms."""
        threshold = thin_sphere_threshold(LATENTS)
        edge = threshold / math.log(10)
        etas = sorted({*np.linspace(-60, -10, 51).tolist(), edge - 0.01, edge + 0.01})
        rows = []
        for log10 in etas:
            region = optimal_region(LATENTS, log10 * math.log(10))
            rows.append({"log10 eta": log10, "a": region.a, "b": region.b, "cost": region.value})
        return pd.DataFrame(rows).assign(radius=mean_norm(LATENTS), **{"log10 threshold": edge})


class Region(Experiment):
    """Which shell of codes is the best region, against the weight of its volume (Appendix A.2)."""

    name = "maps-region"
    title = "The best region of 64 latents: a thin sphere, unless volume is cheap"
    keys = ("log10 eta",)
    values = ("a", "b", "cost", "radius", "log10 threshold")

    def jobs(self, study: Study) -> Sequence[Job]:
        """A few dozen small problems."""
        return [BestRegion()]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Both radii against eta, with the threshold and the paper's."""
        figure, (axes,) = panels(1, self.title, width=7.5)
        eta, threshold = rows["log10 eta"], rows["log10 threshold"].iloc[0]
        axes.plot(eta, rows["b"], color=DEFAULT, label="outer radius b")
        axes.plot(eta, rows["a"], color=MDMM, label="inner radius a")
        radius = rows["radius"].iloc[0]
        axes.axhline(radius, color=INK, lw=0.8, ls=":", label=f"C_64 = {radius:.2f}")
        axes.axvline(threshold, color=OBSTACLES[0], lw=1, label=f"threshold {10**threshold:.1e}")
        axes.axvline(
            math.log10(PAPER_ETA), color=INK, lw=1, ls="--", label="paper: sufficient from 1e-16 on"
        )
        axes.set_xlabel("log10 of eta, the weight of the volume", fontsize=9)
        axes.set_ylabel("radius", fontsize=9)
        axes.legend(fontsize=7.5, frameon=False)
        return {self.name: figure}
