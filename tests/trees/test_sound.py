"""Model files whose trees lie: refused before they can end the process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

#: Reads each file and, if it is let, predicts: with a library that believes it, that is the end.
READ = """
import sys
from pathlib import Path
import numpy as np
from cfopt.app.model_files import load_model
from cfopt.app.trust import Trust
from cfopt.errors import InputError

x = np.random.default_rng(1).normal(size=(50, 5))
for path in map(Path, sys.argv[1:]):
    print(path.name, end=": ", flush=True)
    try:
        model = load_model(path, Trust(False, path.parent))
    except InputError as error:
        print(error, flush=True)
        continue
    if path.suffix in (".json", ".ubj"):
        import xgboost
        model.predict(xgboost.DMatrix(x))
    else:
        model.predict(x)
    print("predicted", flush=True)
"""


def outcomes(paths: list[Path]) -> dict[str, str]:
    """What comes of reading files, each line by its name; a process that is ended fails."""
    words = [sys.executable, "-c", READ, *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"signal {-done.returncode}: {done.stdout}{done.stderr}"
    lines = done.stdout.splitlines()
    return dict(line.split(": ", 1) for line in lines)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    return x, x[:, :2] + 0.1 * rng.normal(size=(200, 2))


def assert_refused(found: dict[str, str], good: set[str], why: dict[str, str]) -> None:
    assert {name for name, said in found.items() if said == "predicted"} == good
    for name, reason in why.items():
        assert "cannot be read as" in found[name]
        assert reason in found[name], found[name]


def test_trees_of_xgboost_that_lie_are_refused(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    model = xgboost.XGBRegressor(n_estimators=4, max_depth=3, n_jobs=1).fit(x, y)
    for kind in ("json", "ubj"):
        model.save_model(tmp_path / f"good.{kind}")
    text = (tmp_path / "good.json").read_text()

    def first(content: dict[str, Any]) -> dict[str, Any]:
        return content["learner"]["gradient_booster"]["model"]["trees"][0]  # type: ignore[no-any-return]

    def placed(name: str, at: int, value: int) -> Callable[[dict[str, Any]], None]:
        return lambda content: first(content)[name].__setitem__(at, value)

    def target(content: dict[str, Any]) -> None:
        content["learner"]["gradient_booster"]["model"]["tree_info"][0] = 10**8

    lies: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
        "child": (placed("left_children", 1, 9999), "children that are nodes"),
        "none": (placed("right_children", 1, -1), "children that are nodes"),
        "below": (placed("left_children", 1, -7), "leaves that are marked by -1"),
        "circle": (placed("left_children", 1, 0), "reached in one way only"),
        "itself": (placed("right_children", 1, 1), "reached in one way only"),
        "two": (placed("left_children", 0, 2), "reached in one way only"),
        "feature": (placed("split_indices", 0, 10**8), "features from 0 to 4"),
        "length": (lambda content: first(content)["split_indices"].pop(), "an entry for each node"),
        "leaves": (
            lambda content: first(content)["tree_param"].update(size_leaf_vector="7"),
            "leaves with one value, or 2",
        ),
        "categories": (placed("split_type", 0, 1), "categories of just the nodes that ask"),
        "target": (target, "targets from 0 to 1"),
    }
    for name, (lie, _) in lies.items():
        content = json.loads(text)
        lie(content)
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    raw = (tmp_path / "good.ubj").read_bytes()
    place = raw.index(b"left_children[$l#L") + len(b"left_children[$l#L") + 8
    (tmp_path / "child.ubj").write_bytes(raw[:place] + b"\0\0\x27\x0f" + raw[place + 4 :])
    (tmp_path / "cut.ubj").write_bytes(raw[: len(raw) // 2])
    why = {f"{name}.json": reason for name, (_, reason) in lies.items()}
    why |= {"child.ubj": "children that are nodes", "cut.ubj": "ends in the middle"}
    assert_refused(outcomes(sorted(tmp_path.iterdir())), {"good.json", "good.ubj"}, why)


def test_trees_of_lightgbm_that_lie_are_refused(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    model = lightgbm.LGBMRegressor(n_estimators=2, num_leaves=6, n_jobs=1, verbose=-1)
    model.fit(x, y[:, 0]).booster_.save_model(tmp_path / "good.txt")
    text = (tmp_path / "good.txt").read_text()
    places = {
        "child": ("left_child", 1, "9999", "children that are nodes"),
        "leaf": ("left_child", 1, "-99", "children that are nodes"),
        "circle": ("left_child", 1, "0", "reached in one way only"),
        "feature": ("split_feature", 0, "77", "features from 0 to 4"),
        "values": ("leaf_value", 1, "", "a value of each leaf"),
        "word": ("threshold", 0, "none", "could not convert"),
    }
    for name, (entry, at, value, _) in places.items():
        head, line, rest = text.partition(f"\n{entry}=")
        line, end, rest = rest.partition("\n")
        numbers = line.split()
        numbers[at] = value
        changed = f"{head}\n{entry}={' '.join(numbers)}{end}{rest}"
        size = next(one for one in text.splitlines() if one.startswith("tree_sizes="))
        first, *others = size.removeprefix("tree_sizes=").split()
        first = str(int(first) + len(changed) - len(text))
        changed = changed.replace(size, "tree_sizes=" + " ".join([first, *others]))
        (tmp_path / f"{name}.txt").write_text(changed)
    (tmp_path / "sizes.txt").write_text(text.replace("tree_sizes=", "tree_sizes=1"))
    why = {f"{name}.txt": reason for name, (*_, reason) in places.items()}
    why["sizes.txt"] = "texts as long as tree_sizes says"
    assert_refused(outcomes(sorted(tmp_path.iterdir())), {"good.txt"}, why)


def test_trees_of_scikit_learn_that_lie_are_refused(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io")
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.tree._tree import Tree

    x, y = data()

    def forest(name: str, at: int, value: int) -> Any:
        model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(x, y)
        one = model.estimators_[0].tree_
        state = one.__getstate__()
        nodes = state["nodes"].copy()
        nodes[name][at] = value
        model.estimators_[0].tree_ = Tree(5, np.array([1, 1], dtype=np.intp), 2)
        model.estimators_[0].tree_.__setstate__(state | {"nodes": nodes})
        return model

    def boosted(name: str, at: int, value: int) -> Any:
        model = HistGradientBoostingRegressor(max_iter=2).fit(x, y[:, 0])
        one = model._predictors[0][0]
        one.nodes = one.nodes.copy()
        one.nodes[name][at] = value
        return model

    sklearn = {
        "good": (forest("feature", 0, 0), ""),
        "child": (forest("left_child", 1, 10**8), "children that are nodes"),
        "circle": (forest("left_child", 1, 0), "reached in one way only"),
        "feature": (forest("feature", 0, 10**8), "features from 0 to 4"),
        "boosted": (boosted("count", 0, 1), ""),
        "boosted child": (boosted("left", 0, 10**8), "children that are nodes"),
        "boosted circle": (boosted("left", 0, 0), "reached in one way only"),
        "boosted feature": (boosted("feature_idx", 0, 10**8), "features from 0 to 4"),
        "boosted set": (boosted("is_categorical", 0, 1), "categories where they split by them"),
    }
    for name, (model, _) in sklearn.items():
        io.dump(model, tmp_path / f"{name}.skops")
    why = {f"{name}.skops": reason for name, (_, reason) in sklearn.items() if reason}
    good = {"good.skops", "boosted.skops"}
    assert_refused(outcomes(sorted(tmp_path.iterdir())), good, why)
