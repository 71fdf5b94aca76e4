"""Ensembles behind preprocessing predict what the model predicts, at moved thresholds too."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("treelite")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
from sklearn.compose import (  # noqa: E402
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_transformer,
)
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402
from sklearn.pipeline import FeatureUnion, make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import cfopt  # noqa: E402
from cfopt.pipeline import Adapted, Function  # noqa: E402
from cfopt.pipeline.adapted import as_predictor  # noqa: E402
from cfopt.problems import Finite  # noqa: E402
from cfopt.result.status import Status  # noqa: E402
from cfopt.trees.predictor import TreePredictor  # noqa: E402

#: What another value of a category adds to L2: a 1 becomes 0, and a 0 becomes 1.
_CHANGED = 2.0
RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 3)) * [1.0, 1e-3, 40.0] + [0.0, 7.0, -300.0]
Z = (X - X.mean(0)) / X.std(0)
Y = np.stack([Z[:, 0] * Z[:, 1], Z[:, 2] ** 2, Z.sum(1)], 1) + 5
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    kind=RNG.choice(["red", "green", "blue"], 200), size=RNG.choice(["big", "small"], 200)
)
YF = Y + 2 * (FRAME["kind"] == "red").to_numpy()[:, None] - (FRAME["size"] == "big").to_numpy()[
    :, None
] * [1.0, 2.0, 0.0]  # fmt: skip


def _forest(**settings: Any) -> RandomForestRegressor:
    return RandomForestRegressor(
        **{"n_estimators": 5, "max_depth": 4, "random_state": 0} | settings
    )


def _encoded(last: Any, encoder: Any) -> Any:
    """Scaled numbers in another order, one of them left out, and encoded categories."""
    steps = make_column_transformer(
        (StandardScaler(), ["c"]), (encoder, ["kind", "size"]), ("passthrough", ["a"])
    )
    return make_pipeline(steps, last).fit(FRAME, YF)


def _turned() -> Any:
    """One of the features falls."""
    union = FeatureUnion(
        [("up", StandardScaler()), ("down", RobustScaler())], transformer_weights={"down": -3.7}
    )
    return make_pipeline(union, _forest()).fit(X, Y)


MODELS = {
    "standard": lambda: make_pipeline(StandardScaler(), _forest()).fit(X, Y),
    "range": lambda: make_pipeline(MinMaxScaler((2, 5)), _forest()).fit(X, Y),
    "two steps": lambda: make_pipeline(
        SimpleImputer(), RobustScaler(), make_pipeline(MaxAbsScaler(), _forest())
    ).fit(X, Y),
    "falling": _turned,
    "order": lambda: make_pipeline(
        ColumnTransformer([("x", StandardScaler(), [2]), ("y", "passthrough", [0])]), _forest()
    ).fit(X, Y),
    "boosting": lambda: make_pipeline(
        StandardScaler(), MultiOutputRegressor(GradientBoostingRegressor(n_estimators=6))
    ).fit(X, Y),
    "histograms": lambda: MultiOutputRegressor(
        make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=6))
    ).fit(X, Y),
    "xgboost": lambda: make_pipeline(
        StandardScaler(), xgboost.XGBRegressor(n_estimators=6, n_jobs=1)
    ).fit(X, Y),
    "lightgbm": lambda: make_pipeline(
        MinMaxScaler(), MultiOutputRegressor(lightgbm.LGBMRegressor(n_estimators=6, verbose=-1))
    ).fit(X, Y),
    "target": lambda: TransformedTargetRegressor(
        make_pipeline(StandardScaler(), _forest()), transformer=StandardScaler()
    ).fit(X, Y),
    "target of xgboost": lambda: TransformedTargetRegressor(
        xgboost.XGBRegressor(n_estimators=6, n_jobs=1), transformer=StandardScaler()
    ).fit(X, Y),
    "target of each": lambda: MultiOutputRegressor(
        TransformedTargetRegressor(_forest(), transformer=MinMaxScaler())
    ).fit(X, Y),
    "chosen": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), _forest()),
        {"randomforestregressor__max_depth": [2, 3]},
        cv=2,
    ).fit(X, Y),
    "one-hot": lambda: _encoded(_forest(), OneHotEncoder(sparse_output=False)),
    "one-hot, sparse": lambda: make_pipeline(
        OneHotEncoder(), MaxAbsScaler(), _forest()
    ).fit(FRAME[["kind", "size"]], YF),
    "one-hot, first left out": lambda: _encoded(
        xgboost.XGBRegressor(n_estimators=5, n_jobs=1), OneHotEncoder(drop="first")
    ),
}  # fmt: skip


def _beside(model: Any, predictor: Adapted) -> np.ndarray:
    """Contexts in which a number is at a threshold or next to it."""
    ensemble = predictor.translation.ensemble
    columns = predictor.columns
    known = X if columns is None else columns.encode(FRAME)
    grouped = [] if columns is None else [f for group in columns.layout.groups for f in group]
    rows = [known]
    for f, thresholds in enumerate(ensemble.thresholds):
        if f in grouped:
            continue
        values = [thresholds, *(np.nextafter(thresholds, s * np.inf) for s in (-1, 1))]
        for value in values:
            own = known[RNG.integers(len(known), size=len(value))]
            own[:, f] = value
            rows.append(own)
    return np.concatenate(rows)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_thresholds_are_moved_exactly(name: str) -> None:
    model = MODELS[name]()
    predictor = as_predictor(model)
    assert isinstance(predictor, Adapted)
    assert isinstance(predictor.translation, TreePredictor)
    x = torch.from_numpy(_beside(model, predictor))
    expected = predictor.deployed(x).numpy()
    given = x.numpy() if predictor.columns is None else predictor.columns.decode(x.numpy())
    assert np.array_equal(expected, np.asarray(model.predict(given), dtype=np.float64))
    assert np.allclose(predictor(x).numpy(), expected, rtol=2e-6, atol=2e-6)


def test_what_moves_no_threshold_stays_a_function() -> None:
    ranks = OrdinalEncoder(categories=[list("abcd")])
    letters = pd.DataFrame({"letter": RNG.choice(list("abcd"), 200)})
    rank = letters["letter"].map({"a": 0, "b": 0, "c": 5, "d": 5}).to_numpy()
    boosted = xgboost.XGBRegressor(n_estimators=3, n_jobs=1)
    for model in (
        make_pipeline(PCA(2), _forest()).fit(X, Y),
        make_pipeline(PowerTransformer(), _forest()).fit(X, Y),
        make_pipeline(MinMaxScaler(clip=True), _forest()).fit(X, Y),
        make_pipeline(ranks, _forest()).fit(letters, Y[:, 0] + rank),
        # Zeros of a sparse matrix are missing values for XGBoost.
        make_pipeline(OneHotEncoder(), boosted).fit(FRAME[["kind"]], YF),
    ):
        served = as_predictor(model)
        assert isinstance(served, Function)
        assert "cannot be moved" in served.unread
    assert not as_predictor(model.predict).unread


def test_the_nearest_context_behind_preprocessing_is_that_of_brute_force() -> None:
    pytest.importorskip("numba")
    steps = make_column_transformer((StandardScaler(), ["c", "a"]), (OneHotEncoder(), ["kind"]))
    frame = FRAME[["a", "c", "kind"]]
    model = make_pipeline(steps, _forest(n_estimators=3, max_depth=3)).fit(frame, YF)
    problem = Finite(np.eye(3))
    pipeline = cfopt.Pipeline(model, problem)
    decided = model.predict(frame).argmin(1)
    scale = (1.0, 40.0)
    rows = [int(np.flatnonzero(decided == k)[0]) for k in np.unique(decided)]
    # Every value at which the model's own prediction could change: its thresholds by the scaler's
    # formula, and steps to both sides that are larger than its rounding and small next to losses.
    scaler = model[0].transformers_[0][1]
    edges: dict[int, set[float]] = {0: set(), 1: set()}
    for tree in model[-1].estimators_:
        for f, t in zip(tree.tree_.feature, tree.tree_.threshold, strict=True):
            if f in (0, 1):
                edges[int(f)].add(float(t) * scaler.scale_[f] + scaler.mean_[f])
    for row, wanted in itertools.product(rows, range(3)):
        origin = frame.iloc[row]
        choices = [
            np.array([origin[name], *(e + s * scale[k] * 1e-5 for e in edges[f] for s in (-1, 1))])
            for k, (name, f) in enumerate((("a", 1), ("c", 0)))
        ]
        every = pd.DataFrame(
            itertools.product(*choices, ["blue", "green", "red"]), columns=frame.columns
        )
        costs = model.predict(every)
        good = costs[:, wanted] <= costs.min(1)
        change = every[["a", "c"]].to_numpy() - origin[["a", "c"]].to_numpy(dtype=float)
        loss = ((change / scale) ** 2).sum(axis=1)
        loss += _CHANGED * (every["kind"] != origin["kind"]).to_numpy()
        best = float(loss[good].min()) if good.any() else np.inf
        found = cfopt.explain(
            frame.iloc[[row]],
            pipeline,
            cfopt.Absolute(torch.eye(3)[wanted]),
            features=cfopt.Features(scale=(*scale, 1.0)),
        )[0]
        if np.isinf(best):
            assert found.status is Status.IMPOSSIBLE
            continue
        assert found.optimal
        assert found.loss == pytest.approx(best, rel=1e-3, abs=1e-3)
