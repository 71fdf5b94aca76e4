"""Trees that split by categories are explained exactly, as their library predicts."""

from __future__ import annotations

import itertools
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("numba")
pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: E402
from sklearn.multioutput import MultiOutputRegressor  # noqa: E402

import cfopt  # noqa: E402
from cfopt.pipeline import Adapted, Function  # noqa: E402
from cfopt.problems import GridShortestPath  # noqa: E402
from cfopt.result.status import Status  # noqa: E402
from cfopt.trees import TreePredictor, read_ensemble  # noqa: E402
from cfopt.trees.categories import OneHot  # noqa: E402

RNG = np.random.default_rng(0)
GRID = GridShortestPath(3, 3)
LETTERS = list("uvwxyz")
CODES = RNG.integers(0, 6, 300)
NUMBERS = np.stack([RNG.normal(size=300), CODES, RNG.integers(0, 4, 300)], axis=1)
COSTS = np.stack(
    [
        (CODES * (j + 1)) % 5 + (NUMBERS[:, 2] % 2) * (j % 3) + NUMBERS[:, 0] * j / 6
        for j in range(12)
    ],
    axis=1,
)
COSTS += 9


def _lgbm(**settings: Any) -> Any:
    chosen = {"n_estimators": 3, "max_depth": 3, "min_child_samples": 5, "min_data_per_group": 1}
    return MultiOutputRegressor(
        lightgbm.LGBMRegressor(**chosen, cat_smooth=0, n_jobs=1, verbose=-1, **settings)
    )


def _boosted(**settings: Any) -> Any:
    return xgboost.XGBRegressor(
        n_estimators=3, max_depth=3, enable_categorical=True, n_jobs=1, **settings
    )


def _histograms(**settings: Any) -> Any:
    return MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=3, max_depth=3, **settings))


def _quietly(work: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


OF_NUMBERS = {
    "xgboost, sets": lambda: _boosted(feature_types=["q", "c", "c"], max_cat_to_onehot=1),
    "xgboost, one against the others": lambda: _boosted(
        feature_types=["q", "c", "c"], max_cat_to_onehot=99
    ),
    "lightgbm": lambda: _lgbm(categorical_feature=[1, 2]),
    "histograms": lambda: _histograms(categorical_features=[1, 2]),
    "histograms of halves": lambda: _histograms(categorical_features=[1]),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_categories_that_are_numbers_are_read_as_the_library_reads_them(name: str) -> None:
    x = NUMBERS.copy()
    if "halves" in name:
        x[:, 1] = x[:, 1] / 2 - 1  # histogram boosting takes any numbers for categories
    model = _quietly(lambda: OF_NUMBERS[name]().fit(x, COSTS))
    ensemble = read_ensemble(model)
    near = np.repeat(x[:60], 4, axis=0)  # also between categories, beside them, and unknown ones
    whole = RNG.integers(-2, 9, len(near))
    near[:, 1] = np.nextafter(whole, RNG.choice([-99.0, 99.0], len(near)))
    near[::3, 2] = RNG.uniform(-2, 40, len(near[::3]))
    missing = x[:40].copy()
    missing[:, RNG.integers(3)] = np.nan
    for given in (x, near, missing):
        expected = _quietly(lambda given=given: model.predict(given))
        assert np.allclose(ensemble.predict(given), expected, rtol=1e-6, atol=1e-6)


def _frame() -> pd.DataFrame:
    letters = pd.Categorical.from_codes(CODES, LETTERS)
    return pd.DataFrame({"a": NUMBERS[:, 0], "letter": letters, "b": NUMBERS[:, 2]})


OF_FRAMES = {
    "xgboost": lambda: _boosted(max_cat_to_onehot=1),
    "lightgbm": _lgbm,
    "histograms": lambda: _histograms(categorical_features="from_dtype"),
}


@pytest.mark.parametrize("name", OF_FRAMES)
def test_categories_of_a_frame_are_explained_as_near_as_all_their_values_allow(name: str) -> None:
    frame = _frame()
    model = _quietly(lambda: OF_FRAMES[name]().fit(frame, COSTS))
    pipeline = cfopt.Pipeline(model, GRID)
    assert isinstance(pipeline.predictor, Adapted)
    decided = _quietly(lambda: pipeline.decide(frame))
    picked = np.flatnonzero((decided != decided[0]).any(1).numpy())[:3]
    wanted = decided[:1].repeat(len(picked), 1)
    found = _quietly(lambda: cfopt.explain(frame.iloc[picked], pipeline, cfopt.Relative(wanted)))
    ensemble = pipeline.predictor.translation.ensemble
    edges = [ensemble.thresholds[f] for f in (0, 7)]
    assert [status for status in found.status if status is not Status.VALID] == []
    assert found.optimal.all()
    for i, row in enumerate(picked.tolist()):
        origin = frame.iloc[row]
        choices = [
            np.unique(np.concatenate([t, np.nextafter(t, np.inf), [origin[column]]]))
            for t, column in zip(edges, ("a", "b"), strict=True)
        ]
        every = pd.DataFrame(
            itertools.product(choices[0], LETTERS, choices[1]), columns=frame.columns
        )
        every["letter"] = pd.Categorical(every["letter"], LETTERS)
        costs = np.asarray(_quietly(lambda every=every: model.predict(every)), dtype=float)
        terms = costs * (wanted[i] - decided[row]).numpy()
        good = terms.sum(1) <= 1e-7 * np.abs(terms).sum(1)
        far = (every["a"] - origin["a"]) ** 2 + (every["b"] - origin["b"]) ** 2
        far += 2.0 * (every["letter"] != origin["letter"])  # a 1 becomes 0, and a 0 becomes 1
        assert float(found.loss[i]) == pytest.approx(far[good].min(), rel=1e-5, abs=1e-9)


def test_categories_that_would_need_too_many_nodes_are_served_as_a_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = _frame()
    model = _boosted(max_cat_to_onehot=1).fit(frame, COSTS)
    monkeypatch.setattr("cfopt.trees.categories._MOST_NODES", 10)
    with pytest.raises(cfopt.InputError, match="Merge rare categories"):
        cfopt.trees.read_ensemble(model)
    pipeline = cfopt.Pipeline(model, GRID)
    assert isinstance(pipeline.predictor, Function)
    decided = pipeline.decide(frame)
    row = int((decided != decided[0]).any(1).nonzero()[0])
    found = cfopt.explain(
        frame[row : row + 1], pipeline, cfopt.Relative(decided[:1]), reference=frame
    )
    assert found.valid.all()
    assert not found.optimal.any()
    why = "nothing is proved about nearer ones, since the trees could not be read: A tree that"
    assert why in found.message[0]


def test_a_file_of_xgboost_with_categories_is_read(tmp_path: Any) -> None:
    model = OF_NUMBERS["xgboost, sets"]().fit(NUMBERS, COSTS)
    model.save_model(tmp_path / "model.json")
    predictor = TreePredictor(cfopt.trees.load_ensemble(tmp_path / "model.json"))
    assert np.allclose(predictor.ensemble.predict(NUMBERS), model.predict(NUMBERS), rtol=1e-6)


def test_a_category_may_have_more_values_than_functions_may_call_one_another() -> None:
    count = sys.getrecursionlimit() + 100
    asked = OneHot([range(2 * count + 1)]).asks(0, range(count), missing=False)
    values = []
    while not isinstance(asked, bool):
        assert asked.high is True
        values.append(asked.feature)
        asked = asked.low
    assert (sorted(values), asked) == (list(range(count)), False)
