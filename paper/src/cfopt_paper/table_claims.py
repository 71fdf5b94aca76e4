"""The paper's claims about grids and knapsacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from cfopt_paper.claims import Check, Claim, decided, listed
from cfopt_paper.findings import Findings
from cfopt_paper.table_runs import CRITERIA
from cfopt_paper.table_sweeps import PROVED

#: A ratio of iterations that is not worth mentioning, and one that is.
_LITTLE, _MUCH = 1.5, 2.0
#: A fraction that counts as all.
_NEARLY_ALL = 0.95


def _steps(found: Findings, by: str) -> dict[str, pd.Series[float]]:
    """MDMM's mean iterations for each kind of explanation."""
    return {
        kind: found.curve("steps", by, criterion=kind, search="MDMM")["mean"] for kind in CRITERIA
    }


def _measured(steps: dict[str, pd.Series[float]]) -> str:
    return "; ".join(f"{kind} {listed(curve, form='.0f')}" for kind, curve in steps.items())


def _ends(steps: dict[str, pd.Series[float]]) -> dict[str, float]:
    """By which factor iterations grow from the smallest value of a setting to the largest.

    NaN where there is only one value.
    """
    return {
        kind: float(curve.iloc[-1] / curve.iloc[0]) if len(curve) > 1 else np.nan
        for kind, curve in steps.items()
    }


def _grid_features(found: Findings) -> Iterator[Claim]:
    steps = _steps(found, "features")
    growth = _ends(steps)
    yield Claim(
        found.name,
        "On the grid, iterations do not grow with the number of features",
        "from 10 to 100: relative 246 to 201, absolute 291 to 120, epsilon 101 to 189",
        _measured(steps),
        decided(max(growth.values()) < _LITTLE, *growth.values()),
    )


def _size(found: Findings, size: str, least: int, paper: str) -> Iterator[Claim]:
    """Whether iterations grow with the size of the problem, from a least one on."""
    steps = _steps(found, "size")
    growth = _ends({kind: curve[curve.index >= least] for kind, curve in steps.items()})
    scales = max(growth["relative"], growth["epsilon"]) < _LITTLE
    yield Claim(
        found.name,
        f"Relative and epsilon explanations scale well with the {size}, absolute ones do not",
        paper,
        _measured(steps),
        decided(scales and growth["absolute"] > _LITTLE, *growth.values()),
    )


def _grid_size(found: Findings) -> Iterator[Claim]:
    paper = "from 5 to 10: relative 170 to 47, absolute 189 to 541, epsilon 189 to 87"
    yield from _size(found, "size of the grid", 5, paper)


def _grid_depth(found: Findings) -> Iterator[Claim]:
    steps = _steps(found, "layers")
    spread = {kind: float(curve.max() / curve.min()) for kind, curve in steps.items()}
    yield Claim(
        found.name,
        "On the grid, relative and epsilon explanations take about as long for every depth",
        "relative 146 to 187, epsilon 141 to 243; absolute 109 to 707",
        _measured(steps),
        decided(max(spread["relative"], spread["epsilon"]) < _MUCH),
    )


def _knapsack_features(found: Findings) -> Iterator[Claim]:
    proved = found.curve(PROVED, "features", criterion="absolute", search="default")
    steps = found.curve("steps", "features", criterion="absolute", search="MDMM")["mean"]
    tasks = int(proved["tasks"].iloc[0])
    falls = proved["mean"].iloc[0] > proved["mean"].iloc[-1]
    yield Claim(
        found.name,
        "With few features absolute knapsack tasks take long, since many have no answer",
        "absolute 4,144 iterations with 2 features, 274 with 30; the reason is a guess",
        f"proved to have no answer, of {tasks}: {listed(proved['mean'], form='.0f')}; iterations "
        + listed(steps, form=".0f"),
        decided(bool(falls and steps.iloc[0] > _MUCH * steps.iloc[-1])),
    )


def _knapsack_items(found: Findings) -> Iterator[Claim]:
    paper = "from 5 to 30: relative 997 to 308, absolute 574 to 2,082, epsilon 424 to 121"
    yield from _size(found, "number of items", 5, paper)


def _knapsack_depth(found: Findings) -> Iterator[Claim]:
    steps = _steps(found, "layers")
    deep = {kind: curve.iloc[1:] for kind, curve in steps.items()}
    fewer = all(float(steps[kind].iloc[0]) < float(deep[kind].min()) for kind in CRITERIA)
    spread = [float(c.max() / c.min()) if len(c) > 1 else np.nan for c in deep.values()]
    yield Claim(
        found.name,
        "Knapsack tasks take far fewer iterations with one layer, and about as many with any "
        "number above",
        "relative 457, then 1,485 to 2,751; absolute 399, then 2,322 to 2,788; epsilon 161, then "
        "1,994 to 3,080",
        _measured(steps),
        decided(fewer and max(spread) < _MUCH, *spread),
    )


def _epsilon(found: Findings, paper: str) -> Iterator[Claim]:
    ours, theirs = (
        found.curve("squared distance", "epsilon", search=search) for search in ("default", "MDMM")
    )
    # Task by task: the mean is that of a few far answers, and of other tasks at each epsilon.
    growth = {search: _growth(found, search) for search in ("default", "MDMM")}
    yield Claim(
        found.name,
        f"Epsilon explanations of the {found.name.split('-')[0]} move away as epsilon grows",
        paper,
        "from one epsilon to the next the distance of a task grows in "
        f"{100 * growth['default']:.1f}% of the cases with the default search, in "
        f"{100 * growth['MDMM']:.1f}% with MDMM; mean squared distance, default search: "
        f"{listed(ours['mean'])}; MDMM: {listed(theirs['mean'])}",
        decided(growth["default"] > _NEARLY_ALL, growth["default"]),
    )


def _growth(found: Findings, search: str) -> float:
    """The fraction of tasks whose distance is larger at an epsilon than at the one before."""
    rows = found.rows[found.rows["search"] == search]
    distance = rows.pivot(index=["seed", "task"], columns="epsilon", values="squared distance")
    steps = distance.diff(axis=1).iloc[:, 1:].to_numpy()
    known = steps[~np.isnan(steps)]
    return float((known > 0).mean()) if len(known) else np.nan


def _grid_epsilon(found: Findings) -> Iterator[Claim]:
    yield from _epsilon(found, "squared distance 1.5 at 0.2, 2.9 at 1, 9.0 at 3")


def _knapsack_epsilon(found: Findings) -> Iterator[Claim]:
    yield from _epsilon(found, "squared distance 1.5 at 0.1, 6.7 at 1, 198 at 3")


CHECKS: dict[str, Check] = {
    "grid-features": _grid_features,
    "grid-size": _grid_size,
    "grid-depth": _grid_depth,
    "grid-epsilon": _grid_epsilon,
    "knapsack-features": _knapsack_features,
    "knapsack-items": _knapsack_items,
    "knapsack-depth": _knapsack_depth,
    "knapsack-epsilon": _knapsack_epsilon,
}
