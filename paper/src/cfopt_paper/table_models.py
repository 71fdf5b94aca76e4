"""Tables and the predictors trained on them, as those that the paper's figures were made with.

Costs are PyEPO's, and predictors are trained with the mean squared error for the figures against
features and depth, with SPO+ for the others. The paper's text has another formula of costs, and
SPO+ throughout: `formula="text"` and `training="SPO+"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import cfopt
from cfopt._typing import Array
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, Loss, SPOPlus, fit, mlp
from cfopt.problems import GridShortestPath, Knapsack
from cfopt.running.threads import of_torch
from cfopt.storage import weights
from cfopt_paper.job import Job, Report
from cfopt_paper.study import Study

#: Points that no predictor is trained on.
TESTS = 1000
#: PyEPO's seed, for the study of seed 0.
_SEED = 135
#: The fraction of the training points that says when to stop, where that is not set beforehand.
_HELD_OUT = 0.2
_PATIENCE = 10
_DEGREE, _NOISE = 4, 0.5


@dataclass(frozen=True)
class Recipe:
    """What the paper does with one of its two problems.

    Arguments:
        features, size: the number of features, and the side of the grid or the number of items, at
            the point that its sweeps have in common.
        points, epochs, learning_rate: the settings of the training.
        many_points, many_epochs: the same where networks are trained until they get no better; so
            many epochs are never needed.
        step: the step size gamma of MDMM.
        epsilon: the epsilon of the epsilon-explanations.
    """

    features: int
    size: int
    points: int
    epochs: int
    learning_rate: float
    many_points: int
    many_epochs: int
    step: float
    epsilon: float


RECIPES = {
    "grid": Recipe(10, 5, 1000, 70, 3e-4, 10_000, 400, 0.1, 1.0),
    "knapsack": Recipe(5, 16, 5000, 30, 1e-3, 5000, 400, 0.01, 0.1),
}


@dataclass(frozen=True)
class TableData:
    """A problem with points to train and to test with, in float64."""

    problem: cfopt.Problem
    contexts: Tensor
    costs: Tensor

    @property
    def training(self) -> tuple[Tensor, Tensor]:
        """All but the last points."""
        return self.contexts[:-TESTS], self.costs[:-TESTS]

    @property
    def tests(self) -> tuple[Tensor, Tensor]:
        """The last points."""
        return self.contexts[-TESTS:], self.costs[-TESTS:]


@dataclass(frozen=True)
class TrainTable(Job):
    """A predictor of costs or values: linear regression, or a network.

    Arguments:
        kind: "grid" or "knapsack".
        features: the number of features p.
        size: the side N of the grid, or the number of items.
        layers: the number of layers L.
        training: the loss, "MSE" or "SPO+".
        formula: the formula of the costs, "pyepo" or "text".
        seed: which seed of the study, counted from its own: data, weights and tasks follow it.
        converged: whether it is trained on many points until the loss of held-out points stops
            falling, rather than for a given number of epochs.
    """

    kind: str
    features: int
    size: int
    layers: int = 1
    training: str = "MSE"
    formula: str = "pyepo"
    converged: bool = False
    seed: int = 0

    @property
    def recipe(self) -> Recipe:
        """What the paper does with this problem."""
        return RECIPES[self.kind]

    @property
    def name(self) -> str:
        """The name states all arguments."""
        how = f"{self.training}-{self.formula}{'-converged' * self.converged}".replace("+", "-plus")
        shape = f"features-{self.features}-size-{self.size}-layers-{self.layers}"
        seed = f"-seed-{self.seed}" if self.seed else ""
        return f"{self.kind}-{shape}-{how}{seed}".lower()

    def seconds(self, study: Study) -> float:
        """An estimate from the numbers of batches and of the solves of SPO+."""
        batches = self._epochs(study) * self._points / 32
        solving = 3e-5 * self.size if self.training == "SPO+" else 0.0
        return 0.1 + batches * (4e-4 + 1e-4 * self.layers + solving)

    @property
    def _points(self) -> int:
        return self.recipe.many_points if self.converged else self.recipe.points

    def _epochs(self, study: Study) -> int:
        epochs = self.recipe.many_epochs if self.converged else self.recipe.epochs
        return max(1, round(epochs * study.scale.table_training))

    def data(self, study: Study) -> TableData:
        """Its data, which predictors that differ only in their training share."""
        about = (self.kind, self.features, self.size, self.formula, self._points, self.seed)
        seed = _SEED + self.seed_in(study)
        return study.remember(f"table {about}", lambda: self._generate(seed))

    def seed_in(self, study: Study) -> int:
        """The seed of its data, weights and tasks."""
        return study.seed + self.seed

    def _generate(self, seed: int) -> TableData:
        count = self._points + TESTS
        if self.formula == "text":
            return text_data(self.kind, count, self.features, self.size, seed)
        if self.kind == "grid":
            made = synthetic.grid(count, self.features, self.size, self.size, seed=seed)
        else:
            made = synthetic.knapsack(count, self.features, self.size, seed=seed)
        return TableData(made.problem, made.contexts.double(), made.costs.double())

    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Train with Adam, and report the loss of each epoch."""
        data, epochs = self.data(study), self._epochs(study)
        predictor = self._new(data.problem, self.seed_in(study))
        contexts, costs = data.training
        stopping: dict[str, Any] = {}
        if self.converged:
            held_out = round(_HELD_OUT * len(contexts))
            stopping = {
                "validation": (contexts[-held_out:], costs[-held_out:]),
                "patience": _PATIENCE,
            }
            contexts, costs = contexts[:-held_out], costs[:-held_out]
        loss: Loss = SPOPlus(data.problem) if self.training == "SPO+" else MSE()
        with of_torch(1):
            losses = fit(
                predictor,
                contexts,
                costs,
                loss,
                epochs=epochs,
                learning_rate=self.recipe.learning_rate,
                generator=torch.Generator().manual_seed(self.seed_in(study)),
                on_epoch=lambda epoch, loss: report(epoch / epochs),
                **stopping,
            )
        weights.write(study.models / f"{self.name}.safetensors", predictor.state_dict(), {})
        return pd.DataFrame({"epoch": range(1, len(losses) + 1), "loss": losses})

    def _new(self, problem: cfopt.Problem, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return mlp(self.features, problem.num_costs, self.layers).double()

    def pipeline(self, study: Study) -> cfopt.Pipeline:
        """The trained predictor with its problem."""

        def load() -> cfopt.Pipeline:
            problem = self.data(study).problem
            predictor = self._new(problem, self.seed_in(study))
            tensors, _ = weights.read(study.models / f"{self.name}.safetensors")
            predictor.load_state_dict(tensors)
            return cfopt.Pipeline(predictor.eval(), problem)

        return study.remember(self.name, load)


def base_model(kind: str, **changes: Any) -> TrainTable:
    """The predictor at the point that the paper's sweeps have in common, but for some arguments.

    Arguments:
        kind: "grid" or "knapsack".
        changes: other arguments of `TrainTable`.
    """
    recipe = RECIPES[kind]
    return TrainTable(kind, **({"features": recipe.features, "size": recipe.size} | changes))


def text_data(kind: str, count: int, features: int, size: int, seed: int) -> TableData:
    """Data with the costs of the paper's text, for both problems.

        c_ij = ( ((B x_i)_j / sqrt(p) + 3)^4 / 3.5^4 + 1 ) e_ij,  e_ij uniform in [0.5, 1.5]

    Weights, contexts, B and e are those that PyEPO draws from the same seed, so that the formula is
    all that differs.

    Arguments:
        kind: "grid" or "knapsack".
        count, features: the numbers of points N and of features p.
        size: the side of the grid, or the number of items.
        seed: the seed, as for PyEPO's generator.
    """
    draw = np.random.RandomState(seed)
    problem: cfopt.Problem
    if kind == "knapsack":
        problem = Knapsack(draw.choice(range(300, 800), size=(2, size)) / 100, [20.0, 20.0])
    else:
        problem = GridShortestPath(size, size)
    mixing = draw.binomial(1, 0.5, (problem.num_costs, features))
    contexts = draw.normal(0, 1, (count, features))
    noise = draw.uniform(1 - _NOISE, 1 + _NOISE, (count, problem.num_costs))
    costs = text_costs(contexts, mixing.astype(np.float64), noise)
    return TableData(problem, torch.as_tensor(contexts), torch.as_tensor(costs))


def text_costs(contexts: Array, mixing: Array, noise: Array) -> Array:
    """The formula of `text_data`: `(N, p), (n, p), (N, n) -> (N, n)`."""
    level = contexts @ mixing.T / np.sqrt(contexts.shape[1]) + 3
    costs: Array = (level**_DEGREE / 3.5**_DEGREE + 1) * noise
    return costs
