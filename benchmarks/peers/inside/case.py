"""A case as other libraries see it: a classifier, its training data, and rows to explain.

This file and those beside it run in environments of their own, where cfopt is not installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: What explains a row: its answer, or None, and whether it says that none is nearer.
Explain = Callable[[np.ndarray], "tuple[np.ndarray | None, bool]"]


class Classifier:
    """Class 1 where a score is at most 0; scikit-learn's methods.

    Arguments:
        score: the model, `(N, p) -> (N,)`.
    """

    def __init__(self, score: Callable[[np.ndarray], np.ndarray]) -> None:
        self._score = score

    def predict_proba(self, x: Any) -> np.ndarray:
        one = 1 / (1 + np.exp(self._score(np.asarray(x, dtype=np.float64))))
        return np.stack([1 - one, one], axis=1)

    def predict(self, x: Any) -> np.ndarray:
        return (self._score(np.asarray(x, dtype=np.float64)) <= 0).astype(int)


class Case:
    """What `benchmarks.peers.cases` has written to a folder.

    Arguments:
        folder: with `data.npz`, and `trees.json` where the score is that of an XGBoost model.
    """

    def __init__(self, folder: Path) -> None:
        data = np.load(folder / "data.npz", allow_pickle=False)
        self.known, self.labels, self.rows = data["known"], data["labels"], data["rows"]
        self.names = [str(name) for name in data["names"]]
        self.trees: Any = None
        if (folder / "trees.json").exists():
            from xgboost import XGBRegressor

            self.trees = XGBRegressor()
            self.trees.load_model(folder / "trees.json")
            self.classifier = Classifier(self.trees.predict)
        else:
            layers = [(data[f"weight {k}"], data[f"bias {k}"]) for k in range(int(data["layers"]))]
            self.classifier = Classifier(lambda x: _network(layers, x))


def _network(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """A network with ReLU between its layers; one layer is a linear model."""
    for k, (weight, bias) in enumerate(layers):
        x = np.maximum(x, 0) @ weight + bias if k else x @ weight + bias
    return x[:, 0]


def answer(settings: Callable[[Case], dict[str, Explain]]) -> None:
    """Explain all rows with each setting, and write what is said to the case's folder.

    The first row is explained once before the clock counts. A row without an answer is NaN.
    """
    folder = Path(sys.argv[1])
    case = Case(folder)
    for name, explain in settings(case).items():
        found, seconds = np.full(case.rows.shape, np.nan), np.zeros(len(case.rows))
        proved = np.zeros(len(case.rows), dtype=bool)
        explain(case.rows[:1].copy())
        for k in range(len(case.rows)):
            start = time.process_time()
            one, proved[k] = explain(case.rows[k : k + 1].copy())
            seconds[k] = time.process_time() - start
            if one is not None:
                found[k] = one
        np.savez(folder / f"answers {name}.npz", x=found, seconds=seconds, proved=proved)
