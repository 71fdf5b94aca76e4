"""The gallery: every example runs as printed, and what it finds is judged by all decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from docs.generate import (
    BENCHMARKS,
    DOCS,
    Example,
    command_line,
    configuration,
    examples,
    http,
    measurements,
)

import cfopt

#: More than any problem of the gallery has.
_MANY = 5000


#: Examples that train a model or search among its codes; the documentation is built with them, too.
_LONG = ("07_maps", "17_flow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            one, id=one.path.stem, marks=[pytest.mark.long] if one.path.stem in _LONG else []
        )
        for one in examples()
    ],
)
def test_an_example_of_the_gallery_is_right_and_draws_its_picture(
    example: Example, tmp_path: Path
) -> None:
    printed, variables = example.run(tmp_path)
    assert printed
    assert [path.stem for path in tmp_path.glob("*.png")] == [example.path.stem.partition("_")[2]]
    found = [one for one in variables.values() if isinstance(one, cfopt.Explanation)]
    assert found
    for e in found:
        assert e.valid.any()
        _judge(e, variables.get("pipeline"))


def _judge(e: cfopt.Explanation, pipeline: Any) -> None:
    """The criterion, by the values of all decisions, where they can be listed."""
    every = None if pipeline is None else pipeline.problem.decisions(_MANY)
    if every is None:
        return
    sign, costs = pipeline.problem.sense.sign, e.costs.double()
    best = (sign * costs @ every.T).min(1).values
    own = sign * (costs * e.factual).sum(1)
    slack = 1e-5 * own.abs() + 1e-9
    criterion = e.criterion
    if isinstance(criterion, cfopt.Epsilon):
        holds = best + criterion.epsilon * best.abs() <= own + slack
    elif isinstance(criterion, cfopt.Absolute):
        holds = sign * (costs * e.wanted).sum(1) <= best + slack
    elif isinstance(criterion, cfopt.Relative):
        holds = sign * (costs * e.wanted).sum(1) <= own + slack
    else:
        return
    assert holds[e.valid].all()


def test_the_reference_of_the_configuration_names_every_kind() -> None:
    page = configuration()
    for known in ("Absolute", "GridShortestPath", "TreeCells", "L1", "Sphere", "PCA"):
        assert f"### {known}\n" in page
    assert "_path at 0x" not in page
    assert torch.__name__ not in page.split("## Criteria")[0]


def test_the_references_of_commands_and_requests_name_all_of_them() -> None:
    commands, requests = command_line(), http()
    for name in ("init", "explain", "train", "demo", "serve", "reproduce"):
        assert f"## cfopt {name}\n" in commands
    assert "## POST /api/explain\n" in requests
    assert "| `question" in requests


def test_the_table_of_other_libraries_is_the_one_that_was_measured(tmp_path: Path) -> None:
    measurements(tmp_path)
    short = (tmp_path / "peers.txt").read_text()
    for line in json.loads((BENCHMARKS / "results.json").read_text())["peers"]:
        row = (
            f"| {line['method']} | {line['valid']} | {line['proved']} | {line['L1 / least']:.3g} |"
        )
        assert row in short
    assert (tmp_path / "growth.png").is_file()
    assert "(growth.png)" in (tmp_path / "measurements.md").read_text()


@pytest.mark.parametrize(
    "name",
    [
        *("index.md", "start.md", "measures.md", "concepts/limits.md"),
        pytest.param("images.md", marks=pytest.mark.long),
    ],
)
def test_the_examples_of_the_pages_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    variables: dict[str, Any] = {}
    for part in (DOCS / name).read_text().split("```python\n")[1:]:
        exec(compile(part.split("```")[0], name, "exec"), variables)
    e = variables["e"]
    _judge(e, variables.get("pipeline"))
    assert e.valid.any()
    if name == "start.md":
        # The nearest point of 3 rain - 2 traffic = 4, where the second road becomes the best.
        assert e.optimal.all()
        assert abs(float(e.distance[0]) - 4.5 / 13**0.5) < 1e-6
