"""Every field of an answer, written in several parts and read back, in each form that is kept."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.engine.latent import Codes
from cfopt.fleet import explain_dataset
from cfopt.fleet.dataset_work import DatasetWork
from cfopt.fleet.read_back import from_table
from cfopt.fleet.table import to_table
from cfopt.problems import GridShortestPath
from cfopt.result.json_lines import from_lines, to_lines
from cfopt.result.radii import Radii
from cfopt.result.typical import Typical

#: What is not kept, as the fields' descriptions say, and what a reader supplies.
LEFT_OUT = {"traces", "problem", "pipeline", "generative", "reference"}
SIX = range(6)


def differences(own: Any, other: Any, place: str = "e") -> list[str]:
    """Where two answers differ, in any field of theirs, to the last bit."""
    if type(own) is not type(other):
        return [f"{place}: {own!r:.60} became {other!r:.60}"]
    if is_dataclass(own):
        names = [one.name for one in fields(own) if one.name not in LEFT_OUT]
        pairs = [(f"{place}.{name}", getattr(own, name), getattr(other, name)) for name in names]
    elif isinstance(own, tuple | list):
        if len(own) != len(other):
            return [f"{place}: {len(own)} entries became {len(other)}"]
        pairs = [(f"{place}[{k}]", a, b) for k, (a, b) in enumerate(zip(own, other, strict=True))]
    elif isinstance(own, torch.Tensor):
        same = own.dtype == other.dtype and own.shape == other.shape
        same = same and torch.equal(own.isnan(), other.isnan())
        return [] if same and torch.equal(own.nan_to_num(), other.nan_to_num()) else [place]
    elif isinstance(own, np.ndarray):
        return [] if np.array_equal(own, other, equal_nan=True) else [place]
    else:
        return [] if own == other else [f"{place}: {own!r:.60} became {other!r:.60}"]
    return [line for name, a, b in pairs for line in differences(a, b, name)]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[DatasetWork, cfopt.Explanation]:
    """Six rows with all that an answer can have, and the work that they are part of."""
    problem = GridShortestPath(3, 3)
    pipeline = cfopt.Pipeline(random_linear(5, problem.num_costs, bias=5.0), problem)
    frame = pd.DataFrame(normal(6, 3).numpy().round(3), columns=["wind", "rain", "load"])
    frame["kind"] = ["x", "y"] * 3
    frame["name"] = [f"order {k}" for k in SIX]
    features = cfopt.Features(
        ["wind", "rain", "load", "kind"],
        lower={"wind": -1.0, "rain": -np.inf},
        upper={"wind": 1.0},
        immutable=["load"],
        categories={"kind": ["x", "y"]},
    )
    frame["wind"] = frame["wind"].clip(-0.9, 0.9)
    others = pipeline.decide(normal(60, 5, seed=3) * 3)
    work = explain_dataset(
        frame,
        pipeline,
        cfopt.Absolute(others[:6]),
        tmp_path_factory.mktemp("run") / "out",
        label="name",
        features=features,
        proximity=cfopt.L1(),
        search=cfopt.Auto(),
        margin=0.01,
        time_limit=600.0,
        options=2,
        prices=cfopt.Prices(cfopt.L2()),
    ).work
    e = work.explain(SIX)
    code, none = normal(6, 2, seed=4), torch.nan
    latent = Codes(code, -code, e.x0.clone() / 3, e.decision.flip(0), e.costs / 3)
    percentiles = Typical(100 * torch.rand(6).double(), torch.tensor([1.5, none, 3, 4, none, 6]))
    percentiles = replace(percentiles, after=percentiles.after.double())
    lengths = torch.tensor([0.5, none, torch.inf, 0.25, 0.0, 1 / 3], dtype=torch.float64)
    radii = Radii(lengths, ("exact", "", "at least", "at most", "exact", "exact"))
    options = tuple(
        replace(
            one,
            radii=radii[torch.full((len(one),), k)],
            latent=latent[torch.tensor([k] * len(one))],
        )
        for k, one in enumerate(e.options or ())
    )
    e = replace(e, latent=latent, typical=percentiles, radii=radii, options=options)
    return work, e


def test_the_answer_has_something_in_every_field(
    asked: tuple[DatasetWork, cfopt.Explanation],
) -> None:
    _, e = asked
    empty = [
        one.name for one in fields(e) if one.name != "traces" and getattr(e, one.name) in (None, ())
    ]
    assert not empty
    assert len({*e.status}) > 1
    assert any(e.clash)
    assert any(e.remedy)
    assert any(len(one) > 1 for one in e.options or ())


def test_json_keeps_every_field(asked: tuple[DatasetWork, cfopt.Explanation]) -> None:
    work, e = asked
    assert differences(e, cfopt.Explanation.from_json(e.to_json(), work.pipeline.problem)) == []


@pytest.mark.parametrize("parts", [(6,), (3, 3), (1, 2, 3)])
def test_json_lines_of_several_parts_keep_every_field(
    parts: tuple[int, ...], asked: tuple[DatasetWork, cfopt.Explanation], tmp_path: Path
) -> None:
    work, e = asked
    pieces = e.split(parts)
    lines = [line for k, one in enumerate(pieces) for line in to_lines(one, first=k == 0)]
    assert len(lines) == 7
    assert differences(e, from_lines(lines, work.pipeline.problem)) == []


def test_tables_of_several_parts_keep_every_field(
    asked: tuple[DatasetWork, cfopt.Explanation],
) -> None:
    work, e = asked
    found = []
    for rows, one in zip((range(2), range(2, 6)), e.split((2, 4)), strict=True):
        found.append(from_table(to_table(one, rows), work, rows))
    assert differences(e, cfopt.Explanation.concat(found)) == []
