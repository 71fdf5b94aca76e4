"""Predictors in files of their own libraries, explained from a configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cfopt.app.model_files import load_model
from cfopt.app.trust import Trust
from cfopt.errors import InputError, MissingExtraError


def _data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 3))
    return x, 5 + x @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(200, 12))


def _xgboost(path: Path) -> tuple[Path, np.ndarray]:
    xgboost = pytest.importorskip("xgboost")
    x, y = _data()
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(x, y)
    model.save_model(path / "model.json")
    return path / "model.json", model.predict(x)


def _ubjson(path: Path) -> tuple[Path, np.ndarray]:
    file, expected = _xgboost(path)
    import xgboost

    xgboost.Booster(model_file=str(file)).save_model(path / "model.ubj")
    return path / "model.ubj", expected


def _lightgbm(path: Path) -> tuple[Path, np.ndarray]:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = _data()
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(x, y[:, 0])
    model.booster_.save_model(path / "model.txt")
    return path / "model.txt", model.predict(x)


def _skops(path: Path) -> tuple[Path, np.ndarray]:
    io = pytest.importorskip("skops.io")
    from sklearn.linear_model import Ridge

    x, y = _data()
    model = Ridge().fit(x, y)
    io.dump(model, path / "model.skops")
    return path / "model.skops", model.predict(x)


def _forest(path: Path) -> tuple[Path, np.ndarray]:
    io = pytest.importorskip("skops.io")
    from sklearn.ensemble import RandomForestRegressor

    x, y = _data()
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(x, y)
    io.dump(model, path / "forest.skops")
    return path / "forest.skops", model.predict(x)


@pytest.mark.parametrize("save", [_xgboost, _ubjson, _lightgbm, _skops, _forest])
def test_a_model_comes_back_from_the_file_of_its_library(save, tmp_path: Path) -> None:
    path, expected = save(tmp_path)
    model = load_model(path, Trust(False, tmp_path))
    x, _ = _data()
    if path.suffix in (".json", ".ubj"):
        import xgboost

        x = xgboost.DMatrix(x)
    assert np.allclose(model.predict(x), expected, rtol=1e-6)


def test_a_function_inside_a_model_needs_trust(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io")
    from sklearn.preprocessing import FunctionTransformer

    io.dump(FunctionTransformer(np.linalg.norm), tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"does not know.*pass --trust"):
        load_model(tmp_path / "model.skops", Trust(False, tmp_path))


def test_a_pickle_is_not_read_unless_trusted(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    joblib.dump({"a": 1}, tmp_path / "model.joblib")
    with pytest.raises(InputError, match=r"is a pickle.*pass --trust"):
        load_model(tmp_path / "model.joblib", Trust(False, tmp_path))
    assert load_model(tmp_path / "model.joblib", Trust(True, tmp_path)) == {"a": 1}


@pytest.mark.parametrize("suffix", [".json", ".txt", ".treelite", ".skops", ".onnx"])
def test_a_damaged_file_is_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"not a model")
    with pytest.raises((InputError, MissingExtraError), match=f"model{suffix} cannot be read as a"):
        load_model(path, Trust(True, tmp_path))


def test_a_suffix_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Models are read from \.json"):
        load_model(tmp_path / "model.h5", Trust(True, tmp_path))
