"""The decision that all libraries are asked about, behind three kinds of predictors.

An evening flight from New York or the train, which costs 20 minutes: the only cost is that of the
train minus the predicted delay. So "when would the train have been as good?", a relative question,
is a class flip, which libraries that explain classifiers can answer as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from torch import Tensor
from xgboost import XGBRegressor

import cfopt
from cfopt.datasets import flights
from cfopt.problems import Finite

#: What the train costs, in minutes.
_TRAIN = 20.0
#: Contexts are given in standard deviations from the mean, with so many decimals: DiCE steps
#: through a feature by its last decimal.
_DECIMALS = 2


@dataclass(frozen=True, eq=False)
class Case:
    """A pipeline with one cost, and days on which it decides to fly.

    Arguments:
        name: of the predictor.
        model: the predictor, fitted; a model of scikit-learn or XGBoost.
        known: the contexts that it was fitted on, `(N, p)`.
        labels: whether the train would have been as good on these days in fact, `(N,)`.
        rows: held-out contexts in which the decision is to fly, `(B, p)`.
        names: of the features.
        refits: the same pipeline, its predictor fitted to days drawn with replacement.
    """

    name: str
    model: Any
    known: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    names: list[str]
    refits: list[cfopt.Pipeline]

    @property
    def differentiable(self) -> bool:
        return not isinstance(self.model, XGBRegressor)

    @property
    def x0(self) -> Tensor:
        return torch.from_numpy(self.rows)

    @property
    def pipeline(self) -> cfopt.Pipeline:
        return _pipeline(self.model)

    @property
    def criterion(self) -> cfopt.Criterion:
        """When would the train have been as good?"""
        return cfopt.Relative(torch.ones(1))

    def write(self, folder: Path) -> None:
        """Leave all that other libraries need to know in a folder, as plain numbers."""
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"known": self.known, "labels": self.labels, "rows": self.rows}
        if isinstance(self.model, XGBRegressor):
            self.model.save_model(folder / "trees.json")
        else:
            layers = _layers(self.model)
            parts["layers"] = np.array(len(layers))
            for k, (weight, bias) in enumerate(layers):
                parts |= {f"weight {k}": weight, f"bias {k}": bias}
        np.savez(folder / "data.npz", names=np.array(self.names), **parts)


def _layers(model: Ridge | MLPRegressor) -> list[tuple[np.ndarray, np.ndarray]]:
    if isinstance(model, Ridge):
        return [(model.coef_.reshape(-1, 1), np.atleast_1d(model.intercept_))]
    return list(zip(model.coefs_, model.intercepts_, strict=True))


def _pipeline(model: Any) -> cfopt.Pipeline:
    """Fly, at no cost, or take the train."""
    return cfopt.Pipeline(model, Finite(torch.tensor([[0.0], [1.0]])))


def _refits(
    model: Any, contexts: np.ndarray, costs: np.ndarray, count: int
) -> list[cfopt.Pipeline]:
    draw = np.random.default_rng(0)
    days = [draw.integers(len(contexts), size=len(contexts)) for _ in range(count)]
    return [_pipeline(clone(model).fit(contexts[one], costs[one])) for one in days]


def cases(rows: int = 24, refits: int = 5) -> list[Case]:
    """One for each kind of predictor, fitted to the same days.

    Arguments:
        rows: the most days that are explained.
        refits: how often each predictor is fitted anew.
    """
    known, new = flights.load().split()
    days = known.contexts.to_numpy()
    centre, size = days.mean(axis=0), days.std(axis=0)
    contexts, later = (
        np.round((part.contexts.to_numpy() - centre) / size, _DECIMALS) for part in (known, new)
    )
    evening = [name for name in known.delays if name.endswith(" at 18")]
    costs = _TRAIN - known.delays[evening].mean(axis=1).to_numpy()
    costs /= costs.std()  # the paper's steps are meant for costs of about 1
    found = []
    for name, model in {
        "linear": Ridge(alpha=10.0),
        "trees": XGBRegressor(n_estimators=50, max_depth=3, learning_rate=0.1, n_jobs=1),
        "network": MLPRegressor(hidden_layer_sizes=(8,), alpha=1.0, max_iter=5000, random_state=0),
    }.items():
        model.fit(contexts, costs)
        flown = later[model.predict(later) > 0][:rows]
        labels = (costs <= 0).astype(int)
        anew = _refits(model, contexts, costs, refits)
        names = list(known.contexts.columns)
        found.append(Case(name, model, contexts, labels, flown, names, anew))
    return found
