"""One tree ensemble for all items gives each what the model predicts for it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("treelite")
pytest.importorskip("numba")
xgboost = pytest.importorskip("xgboost")
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import RandomForestRegressor  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402

import cfopt  # noqa: E402
from cfopt.exact.tree_task import trees_of  # noqa: E402
from cfopt.pipeline import PerItem  # noqa: E402
from cfopt.problems import Finite  # noqa: E402
from cfopt.result.status import Status  # noqa: E402
from cfopt.trees import specialise as module  # noqa: E402

RNG = np.random.default_rng(2)
ITEMS = np.array([[0.0, 1.3], [1.0, -0.4], [2.0, 0.1], [2.0, 0.1000001]])
ROWS = np.concatenate([RNG.normal(size=(400, 2)), ITEMS[RNG.integers(4, size=400)]], axis=1)
COSTS = 5 + ROWS[:, 0] * ROWS[:, 2] + (ROWS[:, 1] > 0) * ROWS[:, 3] + RNG.normal(0, 0.3, 400)


def _forest(**settings: Any) -> Any:
    chosen = {"n_estimators": 4, "max_depth": 4, "random_state": 0} | settings
    return RandomForestRegressor(**chosen)


def _boosted() -> Any:
    return xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1)


def _looped(model: Any, x: np.ndarray) -> np.ndarray:
    """The cost of each item in each context, one item at a time."""
    given = [np.c_[x, np.tile(item, (len(x), 1))] for item in ITEMS]
    return np.stack([model.predict(rows) for rows in given], axis=1).astype(np.float64)


@pytest.mark.parametrize("make", [_forest, _boosted])
@pytest.mark.parametrize("most_values", [0, 10**6])
def test_every_item_has_its_own_costs_at_thresholds_too(
    make: Any, most_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", most_values)
    model = make().fit(ROWS, COSTS)
    found = trees_of(PerItem(model, ITEMS))
    assert found is not None
    assert found.ensemble.num_features == 2
    assert (found.ensemble.targets < 0).all() == (most_values > 0)
    rows = [RNG.normal(size=(50, 2))]
    for f, thresholds in enumerate(found.ensemble.thresholds):
        for value in (thresholds, *(np.nextafter(thresholds, s * np.inf) for s in (-1, 1))):
            own = RNG.normal(size=(len(value), 2))
            own[:, f] = value
            rows.append(own)
    x = np.concatenate(rows)
    assert np.allclose(found.ensemble.predict(x), _looped(model, x), rtol=2e-6)


def test_items_that_no_tree_tells_apart_share_its_trees() -> None:
    model = _forest().fit(ROWS, COSTS)
    same = np.tile(ITEMS[:1], (50, 1))
    found = trees_of(PerItem(model, same))
    assert found is not None
    assert found.ensemble.num_trees <= 4


def test_trees_that_compare_items_only_are_a_constant() -> None:
    model = _forest(bootstrap=False, max_features=1.0, max_depth=2).fit(ROWS, ROWS[:, 2])
    found = trees_of(PerItem(model, ITEMS))
    assert found is not None
    assert found.ensemble.num_trees == 1
    x = RNG.normal(size=(20, 2))
    assert found.ensemble.predict(x) == pytest.approx(_looped(model, x))


def test_an_ensemble_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_NODES", 10)
    assert trees_of(PerItem(_forest().fit(ROWS, COSTS), ITEMS)) is None


def test_columns_of_items_are_found_by_name_behind_preprocessing() -> None:
    frame = pd.DataFrame(ROWS, columns=["u", "v", "length", "slope"])
    frame["kind"] = RNG.choice(["road", "lane"], len(frame))
    steps = make_column_transformer(
        (StandardScaler(), ["slope", "u"]), (OneHotEncoder(), ["kind"]), ("passthrough", ["v"])
    )
    costs = COSTS + (frame["kind"] == "lane")
    model = make_pipeline(steps, _forest()).fit(frame, costs)
    items = pd.DataFrame({"slope": ITEMS[:, 1], "kind": ["road", "lane", "lane", "road"]})
    found = trees_of(PerItem(model, items))
    assert found is not None
    x = RNG.normal(size=(60, 2))
    expected = [
        model.predict(pd.DataFrame(x, columns=["u", "v"]).assign(length=0.0, **item))
        for item in items.to_dict("records")
    ]
    assert found.ensemble.predict(x) == pytest.approx(np.stack(expected, axis=1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_nearest_context_is_that_of_brute_force(dtype: torch.dtype) -> None:
    model = _forest().fit(ROWS, COSTS)
    pipeline = cfopt.Pipeline(PerItem(model, ITEMS[:3]), Finite(np.eye(3)))
    # The model's own thresholds, and steps to both sides that are small next to losses.
    edges: list[set[float]] = [set(), set()]
    for tree in model.estimators_:
        for f, t in zip(tree.tree_.feature, tree.tree_.threshold, strict=True):
            if f in (0, 1):
                edges[f] |= {float(t) - 1e-5, float(t) + 1e-5}
    contexts = torch.from_numpy(RNG.normal(size=(4, 2))).to(dtype)
    statuses = set()
    for origin, wanted in itertools.product(contexts, range(3)):
        own = origin.double().numpy()
        every = np.array(
            list(itertools.product(*({*e, o} for e, o in zip(edges, own, strict=True))))
        )
        costs = _looped(model, every)[:, :3]
        good = costs[:, wanted] <= costs.min(axis=1)
        best = ((every - own) ** 2).sum(axis=1)[good].min(initial=np.inf)
        found = cfopt.explain(origin[None], pipeline, cfopt.Absolute(torch.eye(3)[wanted]))[0]
        statuses.add(found.status)
        if np.isinf(best):
            assert found.status is Status.IMPOSSIBLE
            continue
        assert found.optimal
        assert found.loss == pytest.approx(best, rel=1e-3, abs=2e-4)
    assert len(statuses) > 1
