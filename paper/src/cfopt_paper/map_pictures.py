"""Explanations to look at: galleries, and the adversarial figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

import cfopt
from cfopt.plots import plot_gallery, plot_naive_and_plausible
from cfopt.storage.files import write_whole
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job, Report
from cfopt_paper.map_models import TrainVAE, map_pipeline
from cfopt_paper.map_runs import BETA, map_tasks, naive
from cfopt_paper.study import Study


@dataclass(frozen=True)
class Pictured(Job):
    """Explanations of the first maps that are kept whole, for pictures.

    Arguments:
        kind: "relative", "absolute", "epsilon", or "naive" for absolute ones among pixels.
        epsilon: the epsilon of "epsilon".
    """

    kind: str
    epsilon: float = 0.0

    @property
    def name(self) -> str:
        """The name states the kind, and the epsilon if there is one."""
        return f"gallery-{self.kind}" + (f"-{self.epsilon:g}" if self.epsilon else "")

    def needs(self) -> tuple[Job, ...]:
        """The VAE."""
        return (TrainVAE(),)

    def seconds(self, study: Study) -> float:
        """The time grows with the number of maps."""
        return 2.0 * study.scale.gallery

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Explain with the default search, and keep everything in a file beside the table."""
        tasks, count = map_tasks(study), study.scale.gallery
        wanted = tasks.wanted[:count]
        criteria = {"relative": cfopt.Relative(wanted), "epsilon": cfopt.Epsilon(self.epsilon or 1)}
        plausible = {"generative": TrainVAE().load(study), "plausibility": cfopt.Sphere(BETA)}
        e = cfopt.explain(
            tasks.x0[:count],
            map_pipeline(study),
            criteria.get(self.kind, cfopt.Absolute(wanted)),
            **(naive(study) if self.kind == "naive" else plausible),
        )
        write_whole(study.parts / f"{self.name}-explanation.json", e.to_json().encode())
        return pd.DataFrame(
            {
                "kind": self.kind,
                "epsilon": self.epsilon,
                "task": range(count),
                "status": [str(status) for status in e.status],
                "valid": e.valid.tolist(),
                "squared distance": e.distance.square().where(e.valid, float("nan")).tolist(),
                "steps": e.steps.tolist(),
                "message": list(e.message),
            }
        )

    def load(self, study: Study) -> cfopt.Explanation:
        """What was explained."""
        path = study.parts / f"{self.name}-explanation.json"
        return cfopt.Explanation.from_json(path, map_pipeline(study).problem)


class Galleries(Experiment):
    """Maps before and after: relative, absolute, and epsilon explanations (Appendix C)."""

    name = "maps-galleries"
    title = "Explanations to look at"
    keys = ("kind", "epsilon")
    values = ("valid", "squared distance", "steps")

    def jobs(self, study: Study) -> Sequence[Job]:
        """One gallery of each kind, and one for each epsilon."""
        return [
            Pictured("relative"),
            Pictured("absolute"),
            *(Pictured("epsilon", epsilon) for epsilon in study.scale.gallery_epsilons),
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """A page for each gallery."""
        galleries = [job for job in self.jobs(study) if isinstance(job, Pictured)]
        return {
            job.name.replace("gallery", self.name): plot_gallery(job.load(study))
            for job in galleries
        }


class Adversarial(Experiment):
    """The same question answered among pixels and among codes (Figure 2)."""

    name = "maps-adversarial"
    title = "A naive explanation beside a plausible one"
    keys = ("kind",)
    values = ("valid", "squared distance", "steps")

    def jobs(self, study: Study) -> Sequence[Job]:
        """The same maps twice."""
        return [Pictured("naive"), Pictured("absolute")]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The first map for which both were found, and where the search had to move."""
        noisy, plausible = (Pictured(kind).load(study) for kind in ("naive", "absolute"))
        both = noisy.valid & plausible.valid & (noisy.steps > 0) & (plausible.steps > 0)
        shown = int(both.int().argmax())
        return {self.name: plot_naive_and_plausible(noisy[shown], plausible[shown])}
