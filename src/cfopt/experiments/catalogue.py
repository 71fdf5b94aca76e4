"""Every experiment there is."""

from __future__ import annotations

from collections.abc import Sequence

from cfopt.errors import InputError
from cfopt.experiments.departures import Departures
from cfopt.experiments.experiment import Experiment
from cfopt.experiments.map_alpha import AlphaLoss, AlphaRegret
from cfopt.experiments.map_beta import BetaDecision, BetaLoss, BetaReconstruction
from cfopt.experiments.map_boxes import Boxes
from cfopt.experiments.map_latents import Latents
from cfopt.experiments.map_pictures import Adversarial, Galleries
from cfopt.experiments.map_sphere import Mass, Region
from cfopt.experiments.table_grid import GridDepth, GridEpsilon, GridFeatures, GridSize
from cfopt.experiments.table_knapsack import (
    KnapsackDepth,
    KnapsackEpsilon,
    KnapsackFeatures,
    KnapsackItems,
)
from cfopt.names import nearest

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
        GridFeatures(),
        GridSize(),
        GridDepth(),
        GridEpsilon(),
        KnapsackFeatures(),
        KnapsackItems(),
        KnapsackDepth(),
        KnapsackEpsilon(),
        Departures(),
    )
}


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """Experiments in the order of the paper; "all" stands for every one."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            raise InputError(nearest("experiment", name, [*EXPERIMENTS, "all"]))
    return [e for name, e in EXPERIMENTS.items() if name in names or "all" in names]
