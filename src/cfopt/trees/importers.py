"""Tree ensembles of other libraries, read by treelite without executing code of the model."""

from __future__ import annotations

import json
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from cfopt.errors import InputError
from cfopt.extras import require
from cfopt.trees.categories import Codes, Reading
from cfopt.trees.ensemble import TreeEnsemble, at_single_precision
from cfopt.trees.sound import check_lightgbm
from cfopt.trees.treelite_arrays import ensemble_of_treelite

#: The regressors of scikit-learn that round contexts to float32 before they compare.
_ROUNDING = {
    "DecisionTreeRegressor",
    "ExtraTreeRegressor",
    "RandomForestRegressor",
    "ExtraTreesRegressor",
    "GradientBoostingRegressor",
}
_ALONE = ("DecisionTreeRegressor", "ExtraTreeRegressor")
_NOT_ROUNDING = {"HistGradientBoostingRegressor"}
_BOOSTED = {
    "xgboost": ("Booster", "XGBRegressor", "XGBRFRegressor"),
    "lightgbm": ("Booster", "LGBMRegressor"),
}
_SERVED = (
    "decision trees, random forests, extra trees, gradient boosting and histogram boosting of "
    "scikit-learn, also in MultiOutputRegressor, bagged trees that see all features of it, and "
    "regressors of XGBoost and LightGBM"
)
#: LightGBM writes what counts as missing into these bits of a node's decision type.
_MISSING_IS_ZERO, _MISSING_BITS = 1 << 2, 3 << 2


def read_ensemble(model: Any, reading: Reading | None = None) -> TreeEnsemble:
    """The trees of a fitted regressor of scikit-learn, XGBoost or LightGBM.

    Arguments:
        model: the regressor, or a Booster of XGBoost or LightGBM.
        reading: how categories are read from contexts; by default they are numbers there, as the
            library itself reads them from arrays.
    """
    require("A tree ensemble", "trees", "treelite")
    library, name = _kind(model)
    if library == "sklearn":
        return _from_sklearn(model, name, reading)
    if library == "xgboost" and name in _BOOSTED[library]:
        return _from_xgboost(model, name, reading)
    if library == "lightgbm" and name in _BOOSTED[library]:
        return _from_lightgbm(model if name == "Booster" else model.booster_, reading)
    raise InputError(f"Trees can be read from {_SERVED}; got {name} of {library}.")


def can_read(model: Any) -> bool:
    """Whether a model is of a class whose trees can be read."""
    library, name = _kind(model)
    if library != "sklearn":
        return name in _BOOSTED.get(library, ())
    if name == "MultiOutputRegressor":
        return all(map(can_read, getattr(model, "estimators_", [None])))
    if name == "BaggingRegressor":
        return _bags_trees(model)
    return name in _ROUNDING | _NOT_ROUNDING


def _bags_trees(model: Any) -> bool:
    """Whether a BaggingRegressor is a forest: trees, each of which sees all features."""
    every, bags = np.arange(getattr(model, "n_features_in_", 0)), getattr(model, "estimators_", [])
    return all(_kind(one) in (("sklearn", name) for name in _ALONE) for one in bags) and all(
        np.array_equal(features, every) for features in getattr(model, "estimators_features_", [()])
    )


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

    if not Path(path).is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return _load(Path(path), rounding)
    except InputError:
        raise
    except (treelite.TreeliteError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read as a tree ensemble: {error}") from error


def _load(path: Path, rounding: bool | None) -> TreeEnsemble:
    import treelite

    if path.suffix in (".json", ".ubj"):
        found = treelite.frontend.load_xgboost_model(str(path))
        return ensemble_of_treelite(found, at_single_precision, _XGBOOST)
    if path.suffix == ".txt":
        check_lightgbm(path)
        _check_missing(path.read_text())
        found = treelite.frontend.load_lightgbm_model(str(path))
        return ensemble_of_treelite(found, lambda t: t, _LIGHTGBM)
    if path.suffix in (".treelite", ".bin"):
        found = treelite.Model.deserialize(str(path))
        if found.input_type == "float32":
            return ensemble_of_treelite(found, at_single_precision)
        if rounding is None:
            raise InputError(
                "A treelite file of a model in float64 needs rounding=True (in a configuration, "
                "rounding = true) if the model rounds contexts to float32, as trees of "
                "scikit-learn do, or rounding=False if not, as histogram boosting and LightGBM."
            )
        return ensemble_of_treelite(found, at_single_precision if rounding else lambda t: t)
    raise InputError(
        f"load_ensemble needs a file that ends with .json, .ubj, .txt, .treelite or .bin; got "
        f"{path}."
    )


def _from_sklearn(model: Any, name: str, reading: Reading | None) -> TreeEnsemble:
    import treelite

    if name == "MultiOutputRegressor":
        return TreeEnsemble.stack([read_ensemble(one, reading) for one in model.estimators_])
    if not can_read(model):
        raise InputError(f"Trees can be read from {_SERVED}; got {name} of sklearn.")
    if not hasattr(model, "n_features_in_"):
        raise InputError(f"{name} is not fitted; call fit first.")
    if getattr(model, "loss", "") in ("poisson", "gamma") and name in _NOT_ROUNDING:
        raise InputError(f"{name} with loss={model.loss!r} predicts an exponential of its trees.")
    if getattr(model, "is_categorical_", None) is not None:
        reading = reading or _histogram_categories(model)
        model = _numbered(model)
    if name in (*_ALONE, "BaggingRegressor"):
        model = _as_forest([model] if name in _ALONE else model.estimators_)
    try:
        found = treelite.sklearn.import_model(model)
    except (treelite.TreeliteError, NotImplementedError, ValueError) as error:
        raise InputError(f"The trees of this {name} could not be read: {error}") from error
    return ensemble_of_treelite(
        found, (lambda t: t) if name in _NOT_ROUNDING else at_single_precision, reading
    )


def known_categories(model: Any) -> dict[int, Any]:
    """The values of the columns by whose categories histogram boosting splits, as arrays."""
    known = model._preprocessor.named_transformers_["encoder"].categories_
    return dict(zip(np.flatnonzero(model.is_categorical_).tolist(), known, strict=True))


def _histogram_categories(model: Any) -> Codes:
    """How histogram boosting reads categories: as the numbers that they are, and no others."""
    known = known_categories(model)
    for values in known.values():
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise InputError(
                "Trees that split by categories need numbers for these in arrays, got "
                f"{list(values)[:3]}. Encode them by OrdinalEncoder before training."
            )

    def interval(f: int, c: int) -> tuple[float, float]:
        value = float(known[f][c])
        return _before(value, np.float64), value

    return Codes(interval, {f: range(len(values)) for f, values in known.items()})


def _numbered(model: Any) -> Any:
    """The same histogram boosting, with categories that are numbered from 0."""
    found = copy(model)
    found._preprocessor = deepcopy(model._preprocessor)
    encoder = found._preprocessor.named_transformers_["encoder"]
    encoder.categories_ = [np.arange(len(values)) for values in encoder.categories_]
    return found


def _as_forest(trees: list[Any]) -> Any:
    """A forest of trees that are there."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=len(trees))
    forest.estimators_, forest.n_outputs_ = trees, trees[0].n_outputs_
    forest.n_features_in_ = trees[0].n_features_in_
    return forest


def _from_xgboost(model: Any, name: str, reading: Reading | None) -> TreeEnsemble:
    import treelite

    if not np.isnan(getattr(model, "missing", np.nan)):
        raise InputError(
            f"XGBoost with missing={model.missing} is not served: that number is not compared."
        )
    booster = model if name == "Booster" else model.get_booster()
    learner = json.loads(booster.save_config())["learner"]
    if learner["gradient_booster"]["name"] == "gblinear":
        raise InputError("XGBoost with booster='gblinear' has no trees.")
    best = booster.attr("best_iteration")
    if name != "Booster" and best is not None:
        # A regressor predicts without what was trained after the best round.
        booster = booster[: int(best) + 1]
    try:
        if "c" in (booster.feature_types or ()):
            text = _without_names(booster.save_raw("json").decode())
            found = treelite.frontend.from_xgboost_json(text)
        else:
            found = treelite.frontend.from_xgboost(booster)
    except treelite.TreeliteError as error:
        raise InputError(f"The trees of XGBoost could not be read: {error}") from error
    return ensemble_of_treelite(found, at_single_precision, reading or _XGBOOST)


def _without_names(text: str) -> str:
    """The JSON of XGBoost without the names of categories, which treelite does not read.

    Trees know categories by their numbers alone.
    """
    content = json.loads(text)
    model = content["learner"]["gradient_booster"].get("model", {})
    if "cats" in model:
        model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    return json.dumps(content)


def _from_lightgbm(booster: Any, reading: Reading | None) -> TreeEnsemble:
    import treelite

    _check_missing(booster.model_to_string())
    try:
        found = treelite.frontend.from_lightgbm(booster)
    except treelite.TreeliteError as error:
        raise InputError(f"The trees of LightGBM could not be read: {error}") from error
    return ensemble_of_treelite(found, lambda threshold: threshold, reading or _LIGHTGBM)


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


def _before(c: float, dtype: type[np.floating[Any]]) -> float:
    return float(np.nextafter(dtype(c), dtype(-np.inf)))


def _xgboost_category(_: int, c: int) -> tuple[float, float]:
    """Numbers are rounded to float32, and to a whole one towards 0; none below 0 is a category."""
    ends = at_single_precision(np.array([_before(c, np.float32), _before(c + 1, np.float32)]))
    return float(ends[0]), float(ends[1])


def _lightgbm_category(_: int, c: int) -> tuple[float, float]:
    """Numbers are cut off to a whole one, towards 0."""
    return _before(c, np.float64) if c else -1.0, _before(c + 1, np.float64)


_XGBOOST, _LIGHTGBM = Codes(_xgboost_category), Codes(_lightgbm_category)
