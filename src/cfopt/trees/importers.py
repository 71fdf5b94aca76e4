"""Tree ensembles of other libraries, read by treelite without executing code of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.extras import require
from cfopt.trees.ensemble import TreeEnsemble, at_single_precision

#: How treelite writes down `<` and `<=`.
_LESS, _LESS_OR_EQUAL = 2, 3
#: The regressors of scikit-learn that round contexts to float32 before they compare.
_ROUNDING = {
    "DecisionTreeRegressor",
    "ExtraTreeRegressor",
    "RandomForestRegressor",
    "ExtraTreesRegressor",
    "GradientBoostingRegressor",
}
_NOT_ROUNDING = {"HistGradientBoostingRegressor"}
_BOOSTED = {
    "xgboost": ("Booster", "XGBRegressor", "XGBRFRegressor"),
    "lightgbm": ("Booster", "LGBMRegressor"),
}
_SERVED = (
    "decision trees, random forests, extra trees, gradient boosting and histogram boosting of "
    "scikit-learn, also in MultiOutputRegressor, and regressors of XGBoost and LightGBM"
)
#: LightGBM writes what counts as missing into these bits of a node's decision type.
_MISSING_IS_ZERO, _MISSING_BITS = 1 << 2, 3 << 2


def read_ensemble(model: Any) -> TreeEnsemble:
    """The trees of a fitted regressor of scikit-learn, XGBoost or LightGBM.

    Arguments:
        model: the regressor, or a Booster of XGBoost or LightGBM.
    """
    require("A tree ensemble", "trees", "treelite")
    library, name = _kind(model)
    if library == "sklearn":
        return _from_sklearn(model, name)
    if library == "xgboost" and name in _BOOSTED[library]:
        return _from_xgboost(model, name)
    if library == "lightgbm" and name in _BOOSTED[library]:
        return _from_lightgbm(model if name == "Booster" else model.booster_)
    raise InputError(f"Trees can be read of {_SERVED}; got {name} of {library}.")


def can_read(model: Any) -> bool:
    """Whether a model is of a class whose trees can be read."""
    library, name = _kind(model)
    if library != "sklearn":
        return name in _BOOSTED.get(library, ())
    if name == "MultiOutputRegressor":
        return all(map(can_read, getattr(model, "estimators_", [None])))
    return name in _ROUNDING | _NOT_ROUNDING


def _kind(model: Any) -> tuple[str, str]:
    """The library and the name of a model's class."""
    return type(model).__module__.partition(".")[0], type(model).__name__


def load_ensemble(path: str | Path, rounding: bool | None = None) -> TreeEnsemble:
    """The trees in a model file: XGBoost's JSON or UBJ, LightGBM's text, or treelite's own.

    Arguments:
        path: a file that ends with .json, .ubj, .txt, or .treelite (or .bin).
        rounding: for a file of treelite, whether the model rounds contexts to float32, as trees of
            scikit-learn do except histogram boosting; the file does not say.
    """
    require("A tree ensemble", "trees", "treelite")
    import treelite

    path, kind = str(path), Path(path).suffix
    if kind in (".json", ".ubj"):
        return _single_precision(_load(treelite.frontend.load_xgboost_model, path))
    if kind == ".txt":
        _check_missing(Path(path).read_text())
        return _ensemble(_load(treelite.frontend.load_lightgbm_model, path), lambda t: t)
    if kind in (".treelite", ".bin"):
        found = _load(treelite.Model.deserialize, path)
        if found.input_type == "float32":
            return _single_precision(found)
        if rounding is None:
            raise InputError(
                "A treelite file of a model in float64 needs rounding=True if the model rounds "
                "contexts to float32, as trees of scikit-learn do, or rounding=False if not, as "
                "histogram boosting and LightGBM."
            )
        return _ensemble(found, at_single_precision if rounding else lambda t: t)
    raise InputError(
        f"load_ensemble needs a file that ends with .json, .ubj, .txt, .treelite or .bin; got "
        f"{path}."
    )


def _load(reader: Any, path: str) -> Any:
    import treelite

    if not Path(path).is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return reader(path)
    except treelite.TreeliteError as error:
        raise InputError(f"{path} could not be read as a tree ensemble: {error}") from error


def _from_sklearn(model: Any, name: str) -> TreeEnsemble:
    import treelite

    if name == "MultiOutputRegressor":
        return TreeEnsemble.stack([read_ensemble(one) for one in model.estimators_])
    if name not in _ROUNDING | _NOT_ROUNDING:
        raise InputError(f"Trees can be read of {_SERVED}; got {name} of sklearn.")
    if not hasattr(model, "n_features_in_"):
        raise InputError(f"{name} is not fitted; call fit first.")
    if getattr(model, "is_categorical_", None) is not None:
        raise InputError(
            f"This {name} splits by categories, which is not served; encode them one-hot, and "
            "train without categorical_features."
        )
    if getattr(model, "loss", "") in ("poisson", "gamma") and name in _NOT_ROUNDING:
        raise InputError(f"{name} with loss={model.loss!r} predicts an exponential of its trees.")
    alone = name in ("DecisionTreeRegressor", "ExtraTreeRegressor")
    try:
        found = treelite.sklearn.import_model(_as_forest(model) if alone else model)
    except (treelite.TreeliteError, NotImplementedError, ValueError) as error:
        raise InputError(f"The trees of this {name} could not be read: {error}") from error
    return _ensemble(found, at_single_precision if name in _ROUNDING else lambda t: t)


def _as_forest(tree: Any) -> Any:
    """A forest of one tree."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=1)
    forest.estimators_, forest.n_outputs_ = [tree], tree.n_outputs_
    forest.n_features_in_ = tree.n_features_in_
    return forest


def _from_xgboost(model: Any, name: str) -> TreeEnsemble:
    import treelite

    if not np.isnan(getattr(model, "missing", np.nan)):
        raise InputError(
            f"XGBoost with missing={model.missing} is not served: that number is not compared."
        )
    booster = model if name == "Booster" else model.get_booster()
    best = booster.attr("best_iteration")
    if name != "Booster" and best is not None:
        # A regressor predicts without what was trained after the best round.
        booster = booster[: int(best) + 1]
    try:
        found = treelite.frontend.from_xgboost(booster)
    except treelite.TreeliteError as error:
        raise InputError(f"The trees of XGBoost could not be read: {error}") from error
    return _single_precision(found)


def _from_lightgbm(booster: Any) -> TreeEnsemble:
    import treelite

    _check_missing(booster.model_to_string())
    try:
        found = treelite.frontend.from_lightgbm(booster)
    except treelite.TreeliteError as error:
        raise InputError(f"The trees of LightGBM could not be read: {error}") from error
    return _ensemble(found, lambda threshold: threshold)


def _check_missing(text: str) -> None:
    """Raise InputError where LightGBM takes 0 for a missing value, or has linear leaves."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "decision_type" and any(
            int(one) & _MISSING_BITS == _MISSING_IS_ZERO for one in value.split()
        ):
            raise InputError("LightGBM with zero_as_missing=True is not served; train without it.")
        if name == "is_linear" and value.strip() == "1":
            raise InputError("LightGBM with linear_tree=True is not served: its leaves are linear.")


def _single_precision(found: Any) -> TreeEnsemble:
    return _ensemble(found, at_single_precision)


def _ensemble(found: Any, rounded: Callable[[Array], Array]) -> TreeEnsemble:
    """The arrays of a model as treelite has read it."""
    header = found.get_header_accessor()
    postprocessor = header.get_field("postprocessor")
    if postprocessor not in ("identity", "identity_multiclass") or found.num_tree == 0:
        what = "has no trees" if found.num_tree == 0 else f"applies {postprocessor} to its sums"
        raise InputError(
            f"Trees need to add up to the costs themselves, but this model {what}. Use a "
            "regressor with squared or absolute error."
        )
    if int(header.get_field("num_class").max()) > 1:
        raise InputError("Trees need to predict costs; this model is a classifier.")
    base = header.get_field("base_scores").astype(np.float64)
    trees = [found.get_tree_accessor(k) for k in range(found.num_tree)]
    if any(tree.get_field("has_categorical_split")[0] for tree in trees):
        raise InputError(
            "Trees that split by categories are not served; encode the categories one-hot."
        )
    vector = header.get_field("leaf_vector_shape")[0] > 1
    shrink = 1.0 / found.num_tree if header.get_field("average_tree_output")[0] else 1.0
    parts = [_tree(tree, rounded, vector) for tree in trees]
    targets = header.get_field("target_id").astype(np.int32)
    if not vector and len(base) == 1:
        targets = np.zeros_like(targets)
    nodes = np.cumsum([0] + [len(part["feature"]) for part in parts])
    leaves = np.cumsum([0] + [len(part["values"]) for part in parts])
    for part, node, leaf in zip(parts, nodes, leaves, strict=False):
        part["left"] += np.where(part["feature"] >= 0, node, leaf)
        part["right"] += np.where(part["feature"] >= 0, node, 0)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    values = joined.pop("values").astype(np.float64) * shrink
    return TreeEnsemble(
        **{name: joined[name].astype(kind) for name, kind in _KINDS.items()},
        roots=nodes[:-1].astype(np.int32),
        values=values,
        targets=np.full(len(trees), -1, dtype=np.int32) if vector else targets,
        base=base,
        num_features=found.num_feature,
        precision=float(np.finfo(np.float32).eps) if found.output_type == "float32" else 0.0,
    )


_KINDS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
}


def _tree(tree: Any, rounded: Callable[[Array], Array], vector: bool) -> dict[str, Any]:
    """One tree, its nodes and leaves numbered from 0."""
    left, feature = tree.get_field("cleft").astype(np.int64), tree.get_field("split_index")
    inner = left >= 0
    comparison = tree.get_field("cmp")
    given = tree.get_field("threshold")
    strict = inner & (comparison == _LESS)
    if (inner & ~strict & (comparison != _LESS_OR_EQUAL)).any():
        raise InputError("Trees need to compare features by < or <=; this model does not.")
    # Below a number is at or below the one before it, in the precision of the model.
    threshold: Array = np.where(strict, np.nextafter(given, -np.inf, dtype=given.dtype), given)
    threshold = np.where(inner, rounded(threshold.astype(np.float64)), 0.0)
    number = np.cumsum(~inner) - 1
    if vector:
        begin = tree.get_field("leaf_vector_begin")[~inner].astype(np.int64)
        end = tree.get_field("leaf_vector_end")[~inner].astype(np.int64)
        width = int((end - begin).max())
        values = tree.get_field("leaf_vector")[begin[:, None] + np.arange(width)]
    else:
        values = tree.get_field("leaf_value")[~inner][:, None]
    return {
        "feature": np.where(inner, feature, -1).astype(np.int64),
        "threshold": threshold,
        "left": np.where(inner, left, number),
        "right": np.where(inner, tree.get_field("cright").astype(np.int64), -1),
        "missing_left": tree.get_field("default_left").astype(bool),
        "values": values,
    }
