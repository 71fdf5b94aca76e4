"""Tree ensembles of scikit-learn, XGBoost and LightGBM, for exact searches over their cells."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from cfopt import registry
from cfopt.adapters.preprocessed import ensemble_of
from cfopt.adapters.scikit import inputs_of, own_predict
from cfopt.adapters.structure import name_of
from cfopt.errors import InputError
from cfopt.pipeline import Adapted, Columns
from cfopt.trees.importers import can_read, read_ensemble
from cfopt.trees.predictor import TreePredictor


@registry.adapters.register
def trees(model: Any) -> Adapted | None:
    """A fitted tree ensemble, if treelite is there to read it and it is a sum of leaves.

    It may be the end of a scikit-learn Pipeline, or within another of its models, as long as every
    number that trees compare is a monotone function of one feature. Verification asks the library
    itself.
    """
    if find_spec("treelite") is None:
        return None
    try:
        if name_of(model):
            return _of_scikit(model)
        if not can_read(model):
            return None
        ensemble = read_ensemble(model)
    except InputError:  # it may still be served as a function
        return None
    columns = _columns(model)
    if columns is not None and len(columns.layout.labels) != ensemble.num_features:
        return None
    return Adapted(_own(model), TreePredictor(ensemble), type(model).__name__, columns)


def _of_scikit(model: Any) -> Adapted | None:
    if not hasattr(model, "n_features_in_"):
        return None
    inputs = inputs_of(model)
    ensemble = ensemble_of(model, inputs)
    if ensemble is None:
        return None
    own = own_predict(model, inputs)
    return Adapted(own, TreePredictor(ensemble), type(model).__name__, inputs.columns)


def _columns(model: Any) -> Columns | None:
    """The columns of the DataFrames that a model of XGBoost was fitted on, if it was."""
    if type(model).__module__.startswith("xgboost") and hasattr(model, "feature_names_in_"):
        return Columns([str(name) for name in model.feature_names_in_], {})
    return None


def _own(model: Any) -> Callable[[Any], Any]:
    """The library's own prediction; an XGBoost Booster predicts for arrays by another name."""
    in_place = getattr(model, "inplace_predict", None)
    predict: Callable[[Any], Any] = model.predict if in_place is None else in_place
    return predict
