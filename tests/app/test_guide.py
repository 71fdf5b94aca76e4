"""The guide docs/own-pipeline.md: its examples are run as printed, and judged independently."""

from __future__ import annotations

import contextlib
import heapq
import io
import itertools
import math
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from tests.commands import cf
from torch.nn import functional

import cfopt
from cfopt import registry
from cfopt._typing import Array
from cfopt.app.config import read_config
from cfopt.errors import InputError

GUIDE = (Path(__file__).parents[2] / "docs" / "own-pipeline.md").read_text()
#: A file with its name before it, commands, or what they print.
_BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w])")
#: The columns of a search among codes.
_CODES = (
    *("code", "code before", "reconstruction"),
    *("decision of reconstruction", "costs of reconstruction"),
)
#: How usual contexts are to a model that knows some to compare with.
_PERCENTILES = ("percentile before", "percentile after")
#: Of several options, of what is known about how far answers may be off, and of prices.
_FURTHER = {"option", "radius", "radius kind", "prices"}
_FILES = {
    *("explanations", "explanations.jsonl", "journal", "origin.json", "pictures", "report.html"),
    "settings.json",
}


def section(title: str) -> str:
    """What stands under a heading."""
    assert f"\n## {title}\n" in GUIDE
    return GUIDE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def follow(title: str, folder: Path) -> pd.DataFrame:
    """Do what an example says, in its order, and return the table that it ends with."""
    printed = ""
    for name, kind, text in _BLOCK.findall(section(title)):
        if name:
            (folder / name).write_text(text)
        elif kind == "sh":
            printed = ""
            for command in text.splitlines():
                done = run(command, folder)
                printed += done.stdout
                # An error is part of the example only where it is shown.
                assert done.returncode == (2 if "\nError: " in f"\n{done.stdout}" else 0), printed
        else:
            assert kind == "text"
            assert_shown(text.splitlines(), printed.splitlines())
            printed = ""
    assert "Error: " not in printed
    results = folder / "results"
    assert {path.name for path in results.glob("[!.]*")} == _FILES == documented_files()
    return pd.read_parquet(results / "explanations")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as a user gives it; here, unless it leaves modules of the user's own behind."""
    program, *words = command.split()
    assert program in ("python", "cfopt")
    if program == "python" and not imports_neighbours(folder / words[0]):
        printed = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            runpy.run_path(*words, run_name="__main__")
        return subprocess.CompletedProcess(words, 0, printed.getvalue())
    if program == "cfopt" and "--trust" not in words:
        with contextlib.chdir(folder):
            done = cf(*words)
        return subprocess.CompletedProcess(words, done.exit_code, done.output)
    source = str(Path(cfopt.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *(["-m", "cfopt"] if program == "cfopt" else []), *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "400"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def imports_neighbours(script: Path) -> bool:
    """Whether a script imports a module that lies beside it."""
    lines, modules = script.read_text().splitlines(), script.parent.glob("*.py")
    return any(
        line.startswith(("import ", "from ")) and path.stem in line.split()
        for path in modules
        for line in lines
    )


def assert_shown(shown: list[str], real: list[str]) -> None:
    """Lines that the guide shows, "..." for any number of others; numbers agree to a part of 5%."""
    at = 0
    for before, line in itertools.pairwise(["", *shown]):
        if line == "...":
            continue
        found = next((k for k in range(at, len(real)) if alike(line, real[k])), None)
        assert found is not None, f"{line!r} is not printed: {real[at:]}"
        assert before == "..." or found == at, f"{real[at]!r} is not shown before {line!r}"
        at = found + 1
    assert shown[-1] == "..." or at == len(real), f"{real[at:]} is not shown"


def alike(left: str, right: str) -> bool:
    if [w.split() for w in _NUMBER.split(left)] != [w.split() for w in _NUMBER.split(right)]:
        return False
    pairs = zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.05, abs_tol=1e-9) for a, b in pairs)


def documented_files() -> set[str]:
    return set(
        re.findall(r"^\| `([\w.]+)` \|", section("What is written").split("| column")[0], re.M)
    )


def documented_columns() -> list[str]:
    rows = section("What is written").split("| column")[1].splitlines()
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def contexts(table: pd.DataFrame, names: list[str], when: str) -> Array:
    return table[[f"{name} {when}" for name in names]].to_numpy(np.float64)


def decisions(table: pd.DataFrame, what: str) -> Array:
    return np.stack(table[what].to_list()).astype(np.float64)


@pytest.mark.long
def test_the_pyepo_example_is_right(tmp_path: Path) -> None:
    table = follow("1. A PyEPO model trained with SPO+", tmp_path)
    needs = np.array([[3, 4, 2, 5, 3, 4, 2, 3], [2, 5, 4, 3, 1, 4, 3, 2]])
    every = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    loads = every[(every @ needs.T <= [12, 11]).all(axis=1)]
    names = ["temperature", "demand", "fuel price", "holidays"]
    weights = {
        name: t.astype(np.float64)
        for name, t in load_file(tmp_path / "profits.safetensors").items()
    }

    def profits(x: Array) -> Array:
        size = (x - weights["mean"]) / weights["spread"]
        costs: Array = size @ weights["layer.weight"].T + weights["layer.bias"]
        return costs

    def lead(x: Array, load: Array) -> Array:
        """By which part of its value a load is better than every other one."""
        others = loads[(loads != load).any(axis=1)]
        value = profits(x) @ load
        part: Array = (value - (profits(x) @ others.T).max(axis=1)) / np.abs(value)
        return part

    before, after = contexts(table, names, "before"), contexts(table, names, "after")
    true = pd.read_csv(tmp_path / "profits.csv").to_numpy()
    best, asked = loads[(true @ loads.T).argmax(axis=1)], decisions(table, "alternative")
    assert np.array_equal(asked, best)
    found = loads[(profits(before) @ loads.T).argmax(axis=1)]
    assert np.array_equal(decisions(table, "factual"), found)
    assert table["valid"].all()
    assert table["optimal"].all()
    scale, lower = np.array([8.0, 30.0, 0.2, 1.0]), np.array([-10.0, 40.0, 1.2, 0.0])
    upper = np.array([40.0, 160.0, 2.4, 3.0])
    random = np.random.default_rng(0)
    for row, (x0, x, load) in enumerate(zip(before, after, asked, strict=True)):
        already = (found[row] == load).all() and lead(x0[None], load)[0] >= 0.01
        assert table["status"][row] == ("already valid" if already else "valid")
        assert lead(x[None], load)[0] >= 0.01 - 1e-6
        assert np.array_equal(decisions(table, "decision")[row], load)
        assert (x >= lower - 1e-5).all()
        assert (x <= upper + 1e-5).all()
        assert x[3] == round(x[3])
        if already:
            continue
        # No nearer context will do: of many that are allowed and nearer, none is valid.
        steps = random.normal(size=(4000, 4))
        radius = np.linalg.norm((x - x0) / scale) * 0.99
        steps *= (
            radius * random.uniform(0, 1, (4000, 1)) / np.linalg.norm(steps, axis=1, keepdims=True)
        )
        near = x0 + steps * scale
        near[:, 3] = near[:, 3].round()
        near = near.clip(lower, upper)
        near = near[np.linalg.norm((near - x0) / scale, axis=1) <= radius]
        assert len(near) > 100
        assert not (lead(near, load) >= 0.01).any()
    report = (tmp_path / "results" / "report.html").read_text()
    assert "flowers" in report
    assert len(list((tmp_path / "results" / "pictures").iterdir())) == 3


def test_the_highs_example_is_right(tmp_path: Path) -> None:
    table = follow("2. A HiGHS model and a table of contexts", tmp_path)
    # Every plan that may be the best: as many chairs as fit, or none.
    sizes = (range(26), range(41), range(21), range(2))
    rest = np.array(list(itertools.product(*sizes)), dtype=np.float64)
    tables, shelves, desks, rented = rest.T
    room = [
        np.full(len(rest), 50.0),
        (240 - 6 * tables - 3 * shelves - 5 * desks) / 2,
        (120 - 2 * tables - shelves - 3 * desks) / 1.5,
        80 + 40 * rented - 3 * tables - 2 * shelves - 2 * desks,
    ]
    chairs = np.floor(np.min(room, axis=0) + 1e-9)
    most, none = np.column_stack([chairs, rest]), np.column_stack([0 * chairs, rest])
    plans = np.concatenate([most[chairs >= 0], none[chairs > 0]])
    names = ["wood price", "energy price", "orders", "fair", "north", "south", "import"]
    weights = load_file(tmp_path / "margins.safetensors")

    def prices(x: Array) -> Array:
        margins = x @ weights["weight"].T + weights["bias"]
        return np.column_stack([margins, np.full(len(x), -60.0)])

    before, after = contexts(table, names, "before"), contexts(table, names, "after")
    wanted = np.array([40.0, 0.0, 0.0, 20.0, 0.0])
    assert (decisions(table, "alternative") == wanted).all()
    assert np.array_equal(
        decisions(table, "factual"), plans[(prices(before) @ plans.T).argmax(axis=1)]
    )
    assert table["label"].tolist() == [f"2024-{week}" for week in range(41, 53)]
    valid = table["valid"].to_numpy()
    assert set(table["status"]) == {"valid", "proved infeasible"}
    x, price = after[valid], prices(after[valid])
    assert (price @ wanted >= (price @ plans.T).max(axis=1) - 1e-6 * np.abs(price @ wanted)).all()
    assert (x[:, :3] >= np.array([1.5, 5, 10]) - 1e-6).all()
    assert (x[:, :3] <= np.array([6.5, 50, 90]) + 1e-6).all()
    assert np.array_equal(x[:, 2:], x[:, 2:].round())
    assert np.array_equal(x[:, 3], before[valid, 3])
    assert (x[:, 4:].sum(axis=1) == 1).all()
    # What was proved: in a week of a fair, no allowed context of a grid does it.
    assert (before[~valid, 3] == 1).all()
    axes = (np.linspace(1.5, 6.5, 5), np.linspace(5, 50, 5), np.linspace(10, 90, 4), [1.0])
    grid = np.array(list(itertools.product(*axes)))
    for supplier in np.eye(3):
        price = prices(np.column_stack([grid, np.tile(supplier, (len(grid), 1))]))
        assert (price @ wanted < (price @ plans.T).max(axis=1)).all()
    only_else = {"FEATURE before", "FEATURE after", "before", "after", "norm of code"}
    only_else |= {"in sphere", "moved by reconstruction", *_CODES, *_PERCENTILES} | _FURTHER
    each = [f"{name} {when}" for when in ("before", "after") for name in names]
    assert set(table.columns) == set(documented_columns()) - only_else | set(each)


def cheapest_way(costs: Array) -> Array:
    """Dijkstra on 4 x 4 cells with four neighbours, from corner to corner: `(16,) -> (16,)`."""
    grid, reach, origin = costs.reshape(4, 4), {(0, 0): float(costs[0])}, {}
    queue = [(reach[0, 0], (0, 0))]
    while queue:
        value, (i, j) = heapq.heappop(queue)
        for cell in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if min(cell) < 0 or max(cell) > 3:
                continue
            through = value + float(grid[cell])
            if through < reach.get(cell, math.inf):
                reach[cell], origin[cell] = through, (i, j)
                heapq.heappush(queue, (through, cell))
    way, cell = np.zeros((4, 4)), (3, 3)
    way[cell] = 1
    while cell != (0, 0):
        cell = origin[cell]
        way[cell] = 1
    return way.reshape(-1)


@pytest.mark.long
def test_the_image_example_is_right(tmp_path: Path) -> None:
    table = follow("3. Images, with your own VAE", tmp_path)
    assert (table["status"] == "valid").all()
    tensors = load_file(tmp_path / "costs.safetensors") | load_file(tmp_path / "vae.safetensors")
    part = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}

    def costs(images: torch.Tensor) -> Array:
        y = functional.conv2d(images, part["layers.0.weight"], part["layers.0.bias"], stride=6)
        y = functional.conv2d(y.relu(), part["layers.2.weight"], part["layers.2.bias"])
        y = functional.conv2d(y.relu(), part["layers.4.weight"], part["layers.4.bias"])
        found: Array = functional.softplus(y).flatten(1).double().numpy()
        return found

    maps = torch.from_numpy(np.load(tmp_path / "maps.npy"))
    before, after = decisions(table, "before"), decisions(table, "after")
    assert np.array_equal(before, maps[:4].flatten(1).double().numpy())
    wanted = cheapest_way(costs(maps[6:7])[0])
    assert (decisions(table, "alternative") == wanted).all()
    for row, price in enumerate(costs(maps[:4])):
        assert np.array_equal(decisions(table, "factual")[row], cheapest_way(price))
    for price in costs(torch.from_numpy(after).float().reshape(4, 3, 24, 24)):
        best = price @ cheapest_way(price)
        assert price @ wanted <= best * (1 + 1e-6)
    # The answers are what the VAE makes of their codes, and these are typical.
    e = cfopt.Explanation.from_json(tmp_path / "results" / "explanations.jsonl")
    assert e.z is not None
    y = functional.silu(e.z.float() @ part["decoder.0.weight"].T + part["decoder.0.bias"])
    y = functional.silu(y @ part["decoder.2.weight"].T + part["decoder.2.bias"])
    weight, bias = part["decoder.5.weight"], part["decoder.5.bias"]
    y = functional.conv_transpose2d(y.reshape(-1, 16, 4, 4), weight, bias, stride=6).sigmoid()
    assert np.allclose(y.flatten(1).numpy(), after, atol=1e-5)
    norm = math.sqrt(2) * math.gamma(6.5) / math.gamma(6)
    assert np.allclose(table["norm of code"], e.z.norm(dim=1))
    assert (np.abs(table["norm of code"] - norm) < 1).all()
    assert table["in sphere"].all()
    # Nothing is held out here to compare with.
    only_else = {"FEATURE before", "FEATURE after", *_PERCENTILES} | _FURTHER
    assert set(table.columns) == set(documented_columns()) - only_else


#: Tables with the least that they need, and the kinds whose keys differ.
_LEAST = {
    "predictor": ['class = "torch.nn.Linear"'],
    "problem": ['file = "model.lp"'],
    "contexts": ['file = "contexts.csv"'],
    "criterion": ['kind = "Absolute"', "decision_of_row = 0"],
    "generative": ['class = "cfopt.generative.TabularVAE"'],
    "predictor.items": ['file = "items.csv"'],
    "robust": ['kind = "Ball"', "radius = 1"],
}
_KINDS = {
    "criterion": registry.criteria,
    "proximity": registry.proximities,
    "search": registry.searches,
    "plausibility": registry.plausibilities,
}


def test_every_key_of_the_configuration_is_in_the_guide(tmp_path: Path) -> None:
    rows = re.findall(r"^\| ([\w.]*) ?\| `(\w+)` \|", section("The configuration"), re.MULTILINE)
    told: dict[str, set[str]] = {}
    for table, key in rows:
        told.setdefault(table, set()).add(key)
    known = {table: accepted(table, tmp_path / "CONFIG.toml") for table in told}
    # The arguments of searches are many, and documented with their classes.
    assert known["search"] >= {"kind", "class", "max_steps", "mdmm"}
    known["search"] = {"kind", "class"}
    told[""] |= {table for table in told if table and "." not in table}
    assert told == known


def own(noun: registry.Registry) -> list[str]:
    """The names of what cfopt itself registers; other tests may have registered more."""
    names = noun.names()
    return [name for name in names if noun.find(name).__module__.startswith("cfopt.")]


def accepted(table: str, path: Path) -> set[str]:
    """The keys that a table may have: the messages about another one list them."""
    kinds = own(_KINDS[table]) if table in _KINDS else [""]
    found: set[str] = set()
    for kind in kinds:
        lines = [] if table else ["nonsense = 1"]
        for name in {**_LEAST, **({table: []} if table else {})}:
            given = _LEAST.get(name, [])
            if name == table:
                given = [f'kind = "{kind}"'] if kind else given
                given = [*given, "nonsense = 1"]
            lines += [f"[{name}]", *given]
        path.write_text("\n".join(lines))
        with pytest.raises(InputError, match=r"There is no key 'nonsense'") as refused:
            read_config(path)
        assert not table or f"[{table}]" in str(refused.value)
        found |= set(str(refused.value).split("There are: ")[1].rstrip(".").split(", "))
    return found


@pytest.mark.parametrize(
    ("table", "noun"),
    [
        ("problem", registry.problems),
        ("criterion", registry.criteria),
        ("proximity", registry.proximities),
        ("search", registry.searches),
        ("plausibility", registry.plausibilities),
    ],
)
def test_every_kind_of_a_table_is_in_the_guide(table: str, noun: registry.Registry) -> None:
    line = re.search(rf"^\| {re.escape(table)} \| `kind` \| (.*)$", GUIDE, re.MULTILINE)
    assert line is not None
    assert set(own(noun)) <= set(re.findall(r"`(\w+)`", line[1]))
