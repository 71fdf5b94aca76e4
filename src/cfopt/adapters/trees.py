"""Tree ensembles of scikit-learn, XGBoost and LightGBM, for exact searches over their cells."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from cfopt import registry
from cfopt.adapters.frames import columns_of_trees
from cfopt.adapters.preprocessed import ensemble_of
from cfopt.adapters.scikit import inputs_of, own_predict
from cfopt.adapters.structure import name_of
from cfopt.errors import InputError
from cfopt.pipeline import Adapted, Columns, Function
from cfopt.trees.categories import OneHot
from cfopt.trees.importers import can_read, read_ensemble
from cfopt.trees.predictor import TreePredictor

#: Why trees behind other steps may not be an ensemble of the features.
_UNMOVED = "their thresholds cannot be moved to before the other steps of the Pipeline"


@registry.adapters.register
def trees(model: Any) -> Adapted | Function | None:
    """A fitted tree ensemble, if treelite is there to read it and it is a sum of leaves.

    It may be the end of a scikit-learn Pipeline, or within another of its models, as long as every
    number that trees compare is a monotone function of one feature. Categories by which trees
    split are numbers in arrays, or columns of a DataFrame. Verification asks the library itself.
    """
    if find_spec("treelite") is None:
        return None
    columns = columns_of_trees(model) if can_read(model) else None
    try:
        if columns is not None:
            return _of_columns(model, columns)
        if name_of(model):
            return _of_scikit(model)
        if not can_read(model):
            return None
        ensemble = read_ensemble(model)
    except InputError as error:
        return _unread(model, columns, str(error).rstrip("."))
    return Adapted(_own(model), TreePredictor(ensemble), type(model).__name__)


def _of_columns(model: Any, columns: Columns) -> Adapted | None:
    """A model that was fitted on DataFrames, whose columns and categories it knows itself."""
    reading = OneHot(columns.layout.places) if columns.categories else None
    ensemble = read_ensemble(model, reading)
    if len(columns.layout.labels) != ensemble.num_features:
        return None
    return Adapted(_own(model), TreePredictor(ensemble), type(model).__name__, columns)


def _of_scikit(model: Any) -> Adapted | Function | None:
    if not hasattr(model, "n_features_in_"):
        return None
    inputs = inputs_of(model)
    ensemble = ensemble_of(model, inputs)
    if ensemble is None:
        behind_steps = type(model).__name__ == "Pipeline" and can_read(model.steps[-1][1])
        return _unread(model, None, _UNMOVED) if behind_steps else None
    own = own_predict(model, inputs)
    return Adapted(own, TreePredictor(ensemble), type(model).__name__, inputs.columns)


def _unread(model: Any, columns: Columns | None, why: str) -> Function | None:
    """A model whose trees cannot be read as a function, which says why; None if it is not fitted.

    Arguments:
        model: the model.
        columns: those of the DataFrames that it was fitted on, if it knows them itself.
        why: what is said of answers, about which nothing is proved.
    """
    if columns is not None or not name_of(model):
        return Function(_own(model), columns, unread=why)
    if not hasattr(model, "n_features_in_"):
        return None
    inputs = inputs_of(model)
    return Function(own_predict(model, inputs), inputs.columns, unread=why)


def _own(model: Any) -> Callable[[Any], Any]:
    """The library's own prediction; an XGBoost Booster predicts for arrays by another name."""
    in_place = getattr(model, "inplace_predict", None)
    predict: Callable[[Any], Any] = model.predict if in_place is None else in_place
    return predict
