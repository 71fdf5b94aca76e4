"""Models of other libraries in a configuration: one for all entries, and with its own columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from tests.commands import cf, change, refused, results, work_of

import cfopt
from cfopt._typing import Array
from cfopt.result.status import Status
from cfopt.web.served import own
from cfopt.web.work import Work

RNG = np.random.default_rng(0)
DAYS = pd.DataFrame(
    {
        "day": RNG.choice(["workday", "saturday", "sunday"], 120),
        "rain": RNG.gamma(1.0, 3.0, 120),
        "temperature": RNG.normal(15, 6, 120),
    }
)
NUMBERS = DAYS[["temperature", "rain"]]
ARCS = pd.DataFrame({"length": RNG.uniform(1, 3, 4), "name": list("abcd"), "steep": RNG.random(4)})
_SPREAD = NUMBERS.merge(ARCS.drop(columns="name"), how="cross")
TIMES = _SPREAD["length"] * (1 + _SPREAD["rain"]) + _SPREAD["steep"] * _SPREAD["temperature"]
_ITEMS = '[predictor.items]\nfile = "arcs.csv"\ncolumns = ["length", "steep"]\n'
_REST = """
[problem]
kind = "Finite"
arguments = { decisions = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]] }

[contexts]
file = "days.csv"
rows = 5

[criterion]
kind = "Absolute"
decision_of_row = 7
"""


def written(folder: Path, predictor: str, more: str = "") -> Path:
    """A configuration with its tables, whose columns are not in the order of the models."""
    DAYS.to_csv(folder / "days.csv", index=False)
    NUMBERS.to_csv(folder / "numbers.csv", index=False)
    ARCS.to_csv(folder / "arcs.csv", index=False)
    (folder / "CONFIG.toml").write_text(f"[predictor]\n{predictor}{_REST}{more}")
    return folder / "CONFIG.toml"


def _lightgbm(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, verbose=-1).fit(_SPREAD, TIMES)
    model.booster_.save_model(folder / "model.txt")
    return 'file = "model.txt"\n', model.predict


def _xgboost(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(_SPREAD, TIMES)
    model.save_model(folder / "model.json")
    return 'file = "model.json"\n', model.predict


def _skops(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    io = pytest.importorskip("skops.io")
    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(3, max_depth=3, random_state=0).fit(_SPREAD, TIMES)
    io.dump(model, folder / "model.skops")
    return 'file = "model.skops"\n', model.predict


def _treelite(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    treelite = pytest.importorskip("treelite")
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(_SPREAD.to_numpy(), TIMES)
    treelite.sklearn.import_model(model).serialize(folder / "model.treelite")
    text = 'file = "model.treelite"\nrounding = true\n'
    return text, lambda rows: np.asarray(model.predict(rows.to_numpy()))


def _torch(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    weight, bias = RNG.random((1, 4)), RNG.random(1)
    save_file({"weight": weight, "bias": bias}, folder / "model.safetensors")
    text = 'class = "torch.nn.Linear"\narguments = { in_features = 4, out_features = 1 }\n'
    return f'{text}weights = "model.safetensors"\n', lambda rows: rows.to_numpy() @ weight[0] + bias


def _onnx(folder: Path) -> tuple[str, Callable[[pd.DataFrame], Array]]:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weight = RNG.random((4, 1)).astype(np.float32)
    number = onnx.TensorProto.FLOAT
    ends = [
        [onnx.helper.make_tensor_value_info(name, number, ["rows", size])]
        for name, size in (("x", 4), ("y", 1))
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "costs",
        *ends,
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx"
    )
    return 'file = "model.onnx"\n', lambda rows: (rows.to_numpy() @ weight)[:, 0]


@pytest.mark.parametrize("save", [_lightgbm, _xgboost, _skops, _treelite, _torch, _onnx])
def test_one_model_for_all_entries_is_read_with_its_items(
    save: Callable[[Path], tuple[str, Callable[[pd.DataFrame], Array]]], tmp_path: Path
) -> None:
    text, predict = save(tmp_path)
    # A model that knows no names reads the columns of contexts as they stand.
    named = '[features]\nnames = ["temperature", "rain"]\n'
    job = work_of(written(tmp_path, text + _ITEMS, named))
    expected = predict(_SPREAD).reshape(len(NUMBERS), len(ARCS))[:5]
    assert job.pipeline.deployed(job.contexts.x).numpy() == pytest.approx(expected, rel=1e-5)
    assert job.pipeline.costs(job.contexts.x).numpy() == pytest.approx(expected, rel=1e-5)
    assert {"arcs.csv", "days.csv"} < set(job.settings["files"])


@pytest.mark.parametrize("save", [_lightgbm, _xgboost, _skops])
def test_a_model_that_knows_its_columns_finds_them_whatever_their_order(
    save: Callable[[Path], tuple[str, Callable[[pd.DataFrame], Array]]], tmp_path: Path
) -> None:
    text, predict = save(tmp_path)
    job = work_of(written(tmp_path, text + _ITEMS))
    expected = predict(_SPREAD).reshape(len(NUMBERS), len(ARCS))[:5]
    assert job.pipeline.costs(job.contexts.x).numpy() == pytest.approx(expected, rel=1e-5)
    assert job.contexts.features.names == ("temperature", "rain")
    assert job.notes == ("days.csv: left out, not a feature: day",)


def test_a_treelite_file_says_what_it_leaves_open(tmp_path: Path) -> None:
    text, _ = _treelite(tmp_path)
    unsaid = written(tmp_path, text.replace("rounding = true\n", "") + _ITEMS)
    refused(cf("explain", unsaid, "--out", tmp_path / "out"), "rounding = true", "scikit-learn")
    text, _ = _skops(tmp_path)
    said = written(tmp_path, text + "rounding = true\n" + _ITEMS)
    refused(cf("explain", said, "--out", tmp_path / "out"), "rounding is said of files of treelite")


def test_what_no_decision_can_do_behind_trees_is_proved_in_the_report(tmp_path: Path) -> None:
    text, _ = _skops(tmp_path)
    config = written(tmp_path, text + _ITEMS)
    change(config, 'kind = "Absolute"\ndecision_of_row = 7', 'kind = "Epsilon"\nepsilon = 0.9')
    done = cf("explain", config, "--out", tmp_path / "out")
    e = results(tmp_path / "out")
    assert Status.PROVED_INFEASIBLE in e.status, done.output
    clash = e.clash[e.status.index(Status.PROVED_INFEASIBLE)]
    assert clash is not None
    assert len(clash.decisions) == 0  # no decision of its own stands in the way
    report = (tmp_path / "out" / "report.html").read_text()
    assert 'data-status="proved-infeasible"' in report


def test_items_that_are_not_there_are_named_with_their_place(tmp_path: Path) -> None:
    text, _ = _torch(tmp_path)
    config = written(tmp_path, text + _ITEMS.replace("steep", "step"))
    refused(cf("explain", config), "[predictor]", "arcs.csv", "'step'", "Did you mean 'steep'?")
    config = written(tmp_path, text + _ITEMS.replace("arcs.csv", "arc.csv"))
    refused(cf("explain", config), "[predictor.items]", "There is no file", "arc.csv")


@pytest.fixture(name="encoded")
def _encoded(tmp_path: Path) -> tuple[Path, Any]:
    """A configuration that says nothing of the categories which its model has an encoder for."""
    io = pytest.importorskip("skops.io")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    busy = DAYS["day"].map({"workday": 4.0, "saturday": 2.0, "sunday": 0.0})
    costs = np.c_[DAYS["temperature"], DAYS["rain"], busy] @ RNG.random((3, 4)) + 9
    model = make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["temperature", "rain"]), (OneHotEncoder(), ["day"])
        ),
        Ridge(alpha=1e-3),
    ).fit(DAYS[["temperature", "rain", "day"]], costs)
    io.dump(model, tmp_path / "model.skops")
    text, more = 'file = "model.skops"\n', "[features]\nlower = { rain = 0.0 }\n"
    return written(tmp_path, text, more), model


def test_the_categories_that_a_model_knows_need_not_be_said_again(
    encoded: tuple[Path, Any],
) -> None:
    config, model = encoded
    e = work_of(config).explain(range(5))
    assert e.frame_before["day"].tolist() == DAYS["day"].head(5).tolist()
    assert set(e.frame["day"]) <= set(DAYS["day"])
    assert set(e.status) <= {"valid", "already valid"}
    costs = model.predict(e.frame)
    chosen = (costs * e.alternative.numpy()).sum(1)
    assert (chosen <= costs.min(1) + 1e-5).all()


def test_naming_some_values_of_a_model_s_category_rules_out_the_others(
    encoded: tuple[Path, Any],
) -> None:
    config, _ = encoded
    DAYS.assign(day="sunday").to_csv(config.parent / "days.csv", index=False)
    allowed = 'categories = { day = ["sunday", "saturday"] }\n'
    config.write_text(config.read_text() + allowed)
    job = work_of(config)
    limits = job.question.features.limits(5)
    labels = list(job.question.features.labels(5))
    assert limits.upper[labels.index("day=workday")] == 0
    assert limits.upper[labels.index("day=saturday")] == 1


def test_the_explorer_takes_time_limits_from_requests_and_from_the_configuration(
    tmp_path: Path,
) -> None:
    """In no time nothing is found; without a limit, the same question has an answer."""
    save_file({f"{k}.{name}": value for k, name, value in _LAYERS}, tmp_path / "model.safetensors")
    text = (
        'kind = "mlp"\narguments = { num_features = 2, num_costs = 4, depth = 2 }\n'
        'weights = "model.safetensors"\n'
    )
    config = written(tmp_path, text)
    config.write_text(config.read_text().replace("days.csv", "numbers.csv"))
    asked = {"pipeline": "own", "context": {"row": 0}, "question": {"kind": "epsilon"}}
    asked["question"]["epsilon"] = 0.05  # type: ignore[index]

    def status(**more: float) -> str:
        work = Work({"own": own(config, False, 10_000)}, lambda: False)
        found = work.do("explain", asked | more, lambda news: None)
        (said,) = cfopt.Explanation.from_json(found["explanation"]).status
        return said

    assert status() == "valid"
    assert status(time_limit=1e-9) == "best effort"
    config.write_text(f"{config.read_text()}[run]\ntime_limit = 1e-9\n")
    assert status() == "best effort"
    assert status(time_limit=3600.0) == "valid"


_LAYERS = [
    (0, "weight", np.float32([[0.2, 0.1], [-0.1, 0.3]])),
    (0, "bias", np.float32([1.0, 1.0])),
    (2, "weight", np.float32([[1.0, 0.0], [0.0, 1.0], [0.5, 0.6], [0.7, 0.1]])),
    (2, "bias", np.full(4, 6.0, np.float32)),
]
