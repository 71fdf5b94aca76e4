"""Every experiment there is."""

from __future__ import annotations

from collections.abc import Sequence

from cfopt.errors import InputError
from cfopt.names import nearest
from cfopt_paper.departures import Departures
from cfopt_paper.experiment import Experiment
from cfopt_paper.map_alpha import AlphaLoss, AlphaRegret
from cfopt_paper.map_architecture import Architecture
from cfopt_paper.map_beta import BetaDecision, BetaLoss, BetaReconstruction
from cfopt_paper.map_boxes import Boxes
from cfopt_paper.map_generators import Generators
from cfopt_paper.map_latents import Latents
from cfopt_paper.map_pictures import Adversarial, Galleries
from cfopt_paper.map_sphere import Mass, Region
from cfopt_paper.table_experiments import TABLES

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        AlphaRegret(),
        AlphaLoss(),
        BetaReconstruction(),
        BetaDecision(),
        Boxes(),
        BetaLoss(),
        Mass(),
        Region(),
        Galleries(),
        Adversarial(),
        Latents(),
        Generators(),
        Architecture(),
        *TABLES,
        Departures(),
    )
}


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """Experiments in the order of the paper; "all" stands for every one."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            raise InputError(nearest("experiment", name, [*EXPERIMENTS, "all"]))
    return [e for name, e in EXPERIMENTS.items() if name in names or "all" in names]
