"""Ensembles read from each library predict what the library predicts, at thresholds too."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
pytest.importorskip("treelite")
from sklearn.ensemble import (  # noqa: E402
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor  # noqa: E402

from cfopt.errors import InputError  # noqa: E402
from cfopt.pipeline.adapted import as_predictor  # noqa: E402
from cfopt.testing import PredictorContract  # noqa: E402
from cfopt.trees.ensemble import TreeEnsemble, at_single_precision  # noqa: E402
from cfopt.trees.importers import load_ensemble, read_ensemble  # noqa: E402

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 4))
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2] ** 2, X.sum(1)], 1) + 5


def _lgbm(**settings: Any) -> Any:
    return lightgbm.LGBMRegressor(n_estimators=12, max_depth=4, verbose=-1, **settings)


def _early(strategy: str) -> Any:
    model = xgboost.XGBRegressor(
        n_estimators=60, max_depth=3, early_stopping_rounds=3, learning_rate=0.8,
        multi_strategy=strategy, tree_method="hist", n_jobs=1,
    )  # fmt: skip
    return model.fit(X[:150], Y[:150], eval_set=[(X[150:], Y[150:])], verbose=False)


MODELS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=6).fit(X, Y),
    "extra tree": lambda: ExtraTreeRegressor(max_depth=6, random_state=1).fit(X, Y),
    "forest": lambda: RandomForestRegressor(8, max_depth=5, random_state=1).fit(X, Y),
    "forest of one cost": lambda: RandomForestRegressor(8, max_depth=5).fit(X, Y[:, 0]),
    "extra trees": lambda: ExtraTreesRegressor(8, max_depth=5, random_state=1).fit(X, Y),
    "bagged trees": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=4), 5).fit(X, Y),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=9).fit(X, Y[:, 0]),
    "several boosted": lambda: MultiOutputRegressor(GradientBoostingRegressor(n_estimators=9)).fit(
        X, Y
    ),
    "histograms": lambda: MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=9)).fit(X, Y),
    "several forests": lambda: MultiOutputRegressor(RandomForestRegressor(4)).fit(X, Y),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=12, max_depth=4, n_jobs=1).fit(X, Y),
    "xgboost of one cost": lambda: xgboost.XGBRegressor(n_estimators=12, n_jobs=1).fit(X, Y[:, 0]),
    "xgboost, one tree for all": lambda: xgboost.XGBRegressor(
        n_estimators=12, max_depth=4, multi_strategy="multi_output_tree", tree_method="hist"
    ).fit(X, Y),
    "xgboost, stopped early": lambda: _early("one_output_per_tree"),
    "xgboost forest": lambda: xgboost.XGBRFRegressor(n_estimators=9, max_depth=4).fit(X, Y[:, 0]),
    "xgboost dart": lambda: xgboost.XGBRegressor(n_estimators=9, booster="dart", rate_drop=0.3).fit(
        X, Y[:, 0]
    ),
    "lightgbm": lambda: _lgbm().fit(X, Y[:, 0]),
    "several of lightgbm": lambda: MultiOutputRegressor(_lgbm()).fit(X, Y),
    "lightgbm dart": lambda: _lgbm(boosting_type="dart").fit(X, Y[:, 0]),
    "lightgbm forest": lambda: _lgbm(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6).fit(
        X, Y[:, 0]
    ),
}


def at_and_beside(ensemble: TreeEnsemble, library: np.ndarray) -> np.ndarray:
    """Contexts in which a feature is at a threshold or next to it, in float32 and in float64."""
    rows = []
    for f, thresholds in enumerate(ensemble.thresholds):
        for t in thresholds[:: max(1, len(thresholds) // 25)]:
            single = np.float32(t)
            beside = [np.nextafter(single, np.float32(s * np.inf)) for s in (-1, 1)]
            near = [np.nextafter(t, s * np.inf) for s in (-1, 1)]
            for value in (t, *near, single, *beside):
                row = library[RNG.integers(len(library))].copy()
                row[f] = float(value)
                rows.append(row)
    return np.array(rows)


def _predicted(model: Any, x: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.predict(x)).reshape(len(x), -1)


@pytest.mark.parametrize("name", MODELS)
def test_an_ensemble_predicts_what_its_library_predicts(name: str) -> None:
    model = MODELS[name]()
    ensemble = read_ensemble(model)
    fresh = RNG.normal(size=(200, 4)) * 2
    for x in (fresh, X, at_and_beside(ensemble, X)):
        expected = _predicted(model, x)
        assert np.allclose(ensemble.predict(x), expected, rtol=1e-5, atol=1e-5)


def test_rounding_to_single_precision_is_the_processor_s() -> None:
    t = np.concatenate([RNG.normal(size=500), RNG.normal(size=50) * 1e-40, [0.0, 1.0, 3.4e38]])
    t = np.concatenate([t, t.astype(np.float32).astype(float), [1e39]])
    rounded = at_single_precision(t)
    with np.errstate(over="ignore"):
        assert (rounded.astype(np.float32) <= t).all()
        assert (np.nextafter(rounded, np.inf).astype(np.float32) > t).all()
    assert (at_single_precision(np.array([np.inf, -np.inf])) == [np.inf, -np.inf]).all()


def test_missing_values_go_where_the_library_sends_them() -> None:
    holes = X.copy()
    holes[RNG.random(X.shape) < 0.2] = np.nan
    for model in (
        RandomForestRegressor(5, max_depth=5, random_state=0).fit(holes, Y),
        HistGradientBoostingRegressor(max_iter=5).fit(holes, Y[:, 0]),
        xgboost.XGBRegressor(n_estimators=5).fit(holes, Y),
        _lgbm().fit(holes, Y[:, 0]),
    ):
        assert np.allclose(
            read_ensemble(model).predict(holes), _predicted(model, holes), rtol=1e-5, atol=1e-5
        )


def test_files_hold_the_same_trees(tmp_path: Path) -> None:
    import treelite

    x = RNG.normal(size=(50, 4))
    boosted = xgboost.XGBRegressor(n_estimators=5).fit(X, Y)
    for end in ("json", "ubj"):
        boosted.save_model(tmp_path / f"model.{end}")
        found = load_ensemble(tmp_path / f"model.{end}")
        assert np.array_equal(found.predict(x), read_ensemble(boosted).predict(x))
    light = _lgbm().fit(X, Y[:, 0])
    light.booster_.save_model(tmp_path / "model.txt")
    found = load_ensemble(tmp_path / "model.txt")
    assert np.array_equal(found.predict(x), read_ensemble(light).predict(x))
    forest = RandomForestRegressor(5).fit(X, Y)
    treelite.sklearn.import_model(forest).serialize(str(tmp_path / "model.treelite"))
    found = load_ensemble(tmp_path / "model.treelite", rounding=True)
    assert np.array_equal(found.predict(x), read_ensemble(forest).predict(x))
    with pytest.raises(InputError, match="needs rounding=True"):
        load_ensemble(tmp_path / "model.treelite")
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        load_ensemble(tmp_path / "broken.json")


def test_what_is_not_a_sum_of_leaves_is_refused() -> None:
    zero = _lgbm(zero_as_missing=True).fit(np.where(np.abs(X) < 0.5, 0.0, X), Y[:, 0])
    refused = {
        "exponential": HistGradientBoostingRegressor(loss="poisson", max_iter=3).fit(X, Y[:, 1]),
        "applies": xgboost.XGBRegressor(objective="count:poisson", n_estimators=3).fit(X, Y[:, 1]),
        "Trees can be read": LinearRegression().fit(X, Y),
        "not fitted": RandomForestRegressor(),
        "got RandomForestClassifier": RandomForestClassifier(3).fit(X, Y[:, 0] > 5),
        "zero_as_missing": zero,
        "missing=0": xgboost.XGBRegressor(n_estimators=3, missing=0.0).fit(X, Y),
        "has no trees": xgboost.XGBRegressor(n_estimators=3, booster="gblinear").fit(X, Y),
        "got BaggingRegressor": BaggingRegressor(max_features=0.5).fit(X, Y),
        "linear_tree": _lgbm(linear_tree=True).fit(X, Y[:, 0]),
    }
    for words, model in refused.items():
        with pytest.raises(InputError, match=words):
            read_ensemble(model)


class TestAdaptedForest(PredictorContract):
    def predictor(self) -> Any:
        return as_predictor(MODELS["forest"]())

    def contexts(self) -> torch.Tensor:
        return torch.from_numpy(X[:8])
