"""Forests of scikit-learn asked for few contexts at a time, as verification does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cfopt.adapters.structure import name_of

#: Up to this many contexts are few: with more, workers are worth their while.
_FEW = 64


def predict_of(model: Any) -> Callable[[Any], Any]:
    """The model's own `predict`; that of a forest without its workers, where contexts are few.

    A forest hands each of its trees to joblib, which takes several times as long as a tree with one
    row. Asked one after the other and added as `predict` adds them, the same trees return the same
    numbers to the last bit.
    """
    predict: Callable[[Any], Any] = model.predict
    if name_of(model) not in ("RandomForestRegressor", "ExtraTreesRegressor"):
        return predict

    def few(x: Any) -> Any:
        plain = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2
        if not plain or len(x) > _FEW or x.shape[1] != model.n_features_in_:
            return predict(x)
        with np.errstate(over="ignore"):
            single = x.astype(np.float32)  # as `predict` has them
        if not np.isfinite(single).all():
            return predict(x)
        total = sum(one.tree_.predict(single) for one in model.estimators_)
        return (total / len(model.estimators_))[..., 0]

    return few
