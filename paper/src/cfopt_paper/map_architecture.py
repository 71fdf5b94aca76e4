"""The paper's own VAE beside the compact one of the study: what comes back with it?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import DEFAULT, MDMM, Sweep, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.map_alpha import Reconstruct
from cfopt_paper.map_models import TrainVAE
from cfopt_paper.map_sphere import EncodedMass
from cfopt_paper.paper import paper_values
from cfopt_paper.study import Study

ARCHITECTURES = {"compact": False, "convolutional": True}
#: The plain VAE, and the one that the paper settles on.
ALPHAS = (0.0, 2.0)
_COLOURS = {"compact": MDMM, "convolutional": DEFAULT}
_REGRET, _ERROR = "regret, predicted costs, %", "squared reconstruction error"
_PAPER = {
    _REGRET: ("warcraft: relative regret (%) after reconstruction vs alpha", "predicted costs"),
    _ERROR: ("warcraft: squared L2 reconstruction error vs alpha", "reconstruction"),
}
#: How far the mass of the thickened sphere is from the prior's.
EXCESS = "largest difference to the prior's mass, points"


class Architecture(Experiment):
    """Reconstructions and masses of VAEs of two architectures, alpha = 0 and 2 (Figure 4, Table 1).

    On generated maps: the architecture is the paper's, the data are not.
    """

    name = "maps-architecture"
    title = "The paper's architecture beside the compact one"
    keys = ("architecture", "alpha")
    values = (_REGRET, "regret, true costs, %", _ERROR, EXCESS, "active")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Reconstruction of the test maps, and masses, for each VAE."""
        return [job for _, _, jobs in self._points() for job in jobs]

    def _points(self) -> list[tuple[str, float, tuple[Reconstruct, EncodedMass]]]:
        return [
            (name, alpha, (Reconstruct(vae), EncodedMass(vae)))
            for name, as_in_the_paper in ARCHITECTURES.items()
            for alpha in ALPHAS
            for vae in (TrainVAE(alpha, as_in_the_paper=as_in_the_paper),)
        ]

    def rows(self, study: Study) -> pd.DataFrame:
        """One row for each map, and one for the masses of each VAE."""
        found = []
        for name, alpha, (rebuilt, mass) in self._points():
            masses = study.table(mass)
            excess = 100 * (masses["sampled codes"] - masses["prior"]).abs().max()
            whole = pd.DataFrame({EXCESS: [excess], "active": [masses["active"].iloc[0]]})
            both = pd.concat([study.table(rebuilt), whole], ignore_index=True)
            found.append(both.assign(architecture=name, alpha=alpha))
        return pd.concat(found, ignore_index=True)

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Regret and error against alpha, beside the paper's."""
        figure, axes = panels(2, self.title)
        for one, (measure, (title, series)) in zip(axes, _PAPER.items(), strict=True):
            sweep = Sweep(one, ALPHAS, "Cost-aware regularisation weight alpha", measure)
            for name, colour in _COLOURS.items():
                of = summary[(summary["measure"] == measure) & (summary["architecture"] == name)]
                sweep.curve(of, "alpha", name, colour)
            sweep.paper(paper_values(title, series))
            one.set_ylim(bottom=0)
            sweep.legend()
        return {self.name: figure}
