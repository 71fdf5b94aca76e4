"""Explanations of tables: the tasks of one point of a figure, searched in one way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

import cfopt
from cfopt.errors import InputError
from cfopt.running.threads import of_torch
from cfopt_paper.job import Job, Report
from cfopt_paper.study import Study
from cfopt_paper.table_models import TrainTable

CRITERIA = ("relative", "absolute", "epsilon")
SEARCHES = ("MDMM", "default")
#: About how many seconds a hundred tasks take: with linear regression, and with networks.
_SECONDS = {
    ("MDMM", "relative"): (1.7, 4.0),
    ("MDMM", "absolute"): (4.5, 7.0),
    ("MDMM", "epsilon"): (2.5, 6.0),
    ("default", "relative"): (0.1, 3.0),
    ("default", "absolute"): (0.2, 5.0),
    ("default", "epsilon"): (0.3, 3.0),
}


@dataclass(frozen=True)
class AnyRegret(cfopt.Epsilon):
    """The paper's own rule, to the letter: a best value of 0 is enough, even of the plan itself."""

    unseats: ClassVar[bool] = False


@dataclass(frozen=True)
class TableTasks:
    """Test points in random order, and true optima of others, different from their decisions."""

    x0: Tensor
    wanted: Tensor


def table_tasks(study: Study, model: TrainTable) -> TableTasks:
    """The tasks of a pipeline, the same for every criterion and search."""
    return study.remember(f"tasks {model.name}", lambda: _table_tasks(study, model))


def _table_tasks(study: Study, model: TrainTable) -> TableTasks:
    contexts, costs = model.data(study).tests
    generator = torch.Generator().manual_seed(model.seed_in(study))
    order = torch.randperm(len(contexts), generator=generator)
    pipeline = model.pipeline(study)
    x0 = contexts[order][: study.scale.table_tasks]
    optima = pipeline.problem.solve(costs[order])
    factual = pipeline.decide(x0)
    wanted = []
    for row, own in enumerate(factual):
        # From the next point on, so that tasks have different alternatives.
        others = optima.roll(-row - 1, 0)
        different = (others != own).any(1).nonzero()
        if not len(different):
            raise InputError(
                f"The points of {model.name} all have the same decision, so that there is nothing "
                "to explain. Pass a scale with larger problems."
            )
        wanted.append(others[different[0, 0]])
    return TableTasks(x0, torch.stack(wanted))


@dataclass(frozen=True)
class TableRun(Job):
    """All tasks of a pipeline, for one criterion and with one search.

    Arguments:
        model: the trained predictor.
        criterion: "relative", "absolute" or "epsilon".
        search: "MDMM" or "default".
        epsilon: the epsilon of that criterion; the paper's for the problem by default.
        counting: the stopping rule of MDMM; the one that made the paper's figures by default.
    """

    model: TrainTable
    criterion: str
    search: str
    epsilon: float | None = None
    counting: cfopt.Counting = cfopt.Counting.ALL_STEPS

    def __post_init__(self) -> None:
        if self.criterion == "epsilon" and self.epsilon is None:
            object.__setattr__(self, "epsilon", self.model.recipe.epsilon)

    @property
    def name(self) -> str:
        """The name states all arguments."""
        asked = self.criterion if self.epsilon is None else f"epsilon-{self.epsilon:g}"
        rule = "-valid-steps" if self.counting is cfopt.Counting.VALID_STEPS else ""
        return f"{self.model.name}-{asked}-{self.search}{rule}".lower()

    def needs(self) -> tuple[Job, ...]:
        """The predictor."""
        return (self.model,)

    def seconds(self, study: Study) -> float:
        """An estimate from criterion, search, and the numbers of tasks and steps."""
        scale = study.scale
        known = _SECONDS[self.search, self.criterion][self.model.layers > 1]
        fraction = min(1.0, scale.table_steps / 2000) if self.search == "MDMM" else 1.0
        return 0.1 + known * fraction * (0.7 + 0.3 * scale.table_tasks / 100)

    def how(self, study: Study) -> cfopt.Search:
        """The paper's search with its settings, or ours."""
        if self.search == "default":
            return cfopt.Auto()
        return cfopt.MDMM(
            step=self.model.recipe.step,
            max_steps=study.scale.table_steps,
            patience=10,
            improvement=0.9,
            counting=self.counting,
        )

    def asked(self, wanted: Tensor) -> cfopt.Criterion:
        """The criterion, for alternatives `(B, m)`."""
        if self.epsilon is not None:
            return AnyRegret(self.epsilon)
        kinds = {"relative": cfopt.Relative, "absolute": cfopt.Absolute}
        return kinds[self.criterion](wanted)

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Explain all tasks at once; what is not valid has neither loss nor distance."""
        tasks, model = table_tasks(study, self.model), self.model
        start = time.process_time()
        with of_torch(1):
            e = cfopt.explain(
                tasks.x0,
                model.pipeline(study),
                self.asked(tasks.wanted),
                search=self.how(study),
                on_progress=lambda progress: report(1 - progress.running / progress.total),
            )
        seconds = time.process_time() - start
        valid = e.valid
        return pd.DataFrame(
            {
                "kind": model.kind,
                "features": model.features,
                "size": model.size,
                "layers": model.layers,
                "training": model.training,
                "formula": model.formula,
                "criterion": self.criterion,
                "epsilon": self.epsilon,
                "search": self.search,
                "counting": str(self.counting),
                "seed": model.seed_in(study),
                "task": range(len(e)),
                "status": [str(status) for status in e.status],
                "valid": valid.tolist(),
                "loss": torch.where(valid, e.loss, torch.nan).tolist(),
                "squared distance": torch.where(valid, e.distance.square(), torch.nan).tolist(),
                "proved infeasible": [s is cfopt.Status.PROVED_INFEASIBLE for s in e.status],
                "optimal": e.optimal.tolist(),
                "steps": e.steps.tolist(),
                "passes": e.passes.tolist(),
                "solves": e.solves.tolist(),
                "seconds": seconds / len(e),
            }
        )
