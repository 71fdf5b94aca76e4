"""Every experiment there is."""

from __future__ import annotations

from collections.abc import Sequence

from cfopt.errors import InputError
from cfopt.experiments.experiment import Experiment
from cfopt.experiments.map_alpha import AlphaLoss, AlphaRegret
from cfopt.experiments.names import nearest

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (AlphaRegret(), AlphaLoss())
}


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """Experiments in the order of the paper; "all" stands for every one."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            raise InputError(nearest("experiment", name, [*EXPERIMENTS, "all"]))
    return [e for name, e in EXPERIMENTS.items() if name in names or "all" in names]
