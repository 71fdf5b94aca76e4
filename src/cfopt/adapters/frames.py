"""The columns of the DataFrames that tree ensembles were fitted on, with their categories."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pandas as pd

from cfopt.adapters.structure import name_of
from cfopt.pipeline import Columns
from cfopt.trees.importers import known_categories


def columns_of_trees(model: Any) -> Columns | None:
    """The columns of a model that splits by categories of a DataFrame, or that knows their names.

    The latter are models of XGBoost, and a Booster of LightGBM, as its file gives it. None if the
    model was fitted on arrays, or if scikit-learn's own means know the columns.

    Arguments:
        model: a fitted regressor of scikit-learn, XGBoost or LightGBM, or several of a kind in
            `MultiOutputRegressor`.
    """
    if name_of(model) == "MultiOutputRegressor":
        return columns_of_trees(model.estimators_[0])
    library = type(model).__module__.partition(".")[0]
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if library == "xgboost" and not names:
        names = getattr(model, "feature_names", None) or []
    if library == "xgboost" and names:
        return _typed(names, _of_xgboost(model))
    if library == "lightgbm":
        booster = getattr(model, "booster_", model)
        categories = _of_lightgbm(booster)
        names = booster.feature_name()
        # So are the columns of arrays called.
        named = booster is model and names != [f"Column_{j}" for j in range(len(names))]
        return _typed(names, categories) if categories or named else None
    if names and getattr(model, "is_categorical_", None) is not None:
        known = known_categories(model)
        return _typed(names, {names[f]: values.tolist() for f, values in known.items()})
    return None


def _typed(names: list[str], categories: dict[str, list[Any]]) -> Columns:
    dtypes = {name: pd.CategoricalDtype(values) for name, values in categories.items()}
    return Columns(names, categories, dtypes)


def _of_xgboost(model: Any) -> dict[str, list[Any]]:
    """The categories that a model of XGBoost keeps, which it hands out as those of Arrow."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    named = hasattr(booster, "get_categories") and find_spec("pyarrow") is not None
    if not named or "c" not in (booster.feature_types or ()):
        return {}
    kept = booster.get_categories(export_to_arrow=True).to_arrow()
    return {str(name): values.to_pylist() for name, values in kept if values is not None}


def _of_lightgbm(booster: Any) -> dict[str, list[Any]]:
    """The categories of the DataFrame that a Booster of LightGBM was trained on."""
    kept = booster.pandas_categorical or []
    lines = booster.model_to_string().splitlines()
    infos = next(line for line in lines if line.startswith("feature_infos=")).split("=")[1].split()
    # Numbers have a range in brackets here, categories a list.
    named = [n for n, info in zip(booster.feature_name(), infos, strict=True) if info[:1] != "["]
    return dict(zip(named, kept, strict=True)) if len(named) == len(kept) else {}
