"""A problem that is added in one file, `outside.py`, and a road network that is only in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from driving import configure, explained, served
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from outside import ROADS, TOWNS, Assignment, Towns
from safetensors.torch import save_file
from tests.commands import cf, change, refused, work_of
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.drawing import palette
from cfopt.problems import ShortestPath
from cfopt.report import write_report

_GRID = 'kind = "GridShortestPath"\narguments = { rows = 3, cols = 3 }'
_NETWORK = (
    'kind = "ShortestPath"\n'
    'arguments = { edges = { file = "roads.csv" }, source = "Aix", target = "Eze", '
    'coordinates = { file = "towns.csv" } }'
)


def _predict(example: Path, costs: int) -> torch.nn.Linear:
    """Weights for so many costs beside the configuration; costs are > 0 in all its contexts."""
    change(example, "out_features = 12", f"out_features = {costs}")
    layer = random_linear(4, costs, seed=2, bias=40.0)
    save_file(
        {name: one.clone() for name, one in layer.state_dict().items()},
        example.parent / "weights.safetensors",
    )
    return layer


def _is_best(e: cfopt.Explanation, listed: np.ndarray) -> torch.Tensor:
    """Whether the alternative is, over all decisions."""
    best = (e.costs @ torch.from_numpy(listed).T).min(1).values
    return (e.costs * e.alternative).sum(1) <= best + 1e-5 * e.costs.abs().sum(1)


@pytest.mark.parametrize("problem", [Towns(), Assignment(3)])
def test_an_outside_problem_is_explained_plotted_and_reported_from_its_one_file(
    problem: Any, tmp_path: Path
) -> None:
    pipeline = cfopt.Pipeline(random_linear(3, problem.num_costs, bias=4.0), problem)
    x0 = normal(3, 3)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(another(pipeline, x0)))
    listed = problem.list_decisions(1000)
    assert e.valid.all()
    assert _is_best(e, listed).all()
    back = cfopt.Explanation.from_json(e.to_json())
    assert torch.equal(back.decision, e.decision)
    assert back.summary() == e.summary()
    scene = problem.scene()
    axes = e[0].plot(tmp_path / "why.png").axes[0]
    lines = [one for one in axes.collections if isinstance(one, LineCollection)]
    assert len(lines[0].get_segments()) == len(scene.arcs)
    drawn = {to_hex(one.get_colors()[0]): len(one.get_segments()) for one in lines[1:]}
    assert drawn[palette.LIGHT["factual"]] == int(e.factual[0].sum())
    assert drawn[palette.LIGHT["other"]] == int(e.alternative[0].sum())
    path = write_report(e, tmp_path / "r.html", title="t", seconds=1.0, settings={})
    html = path.read_text(encoding="utf-8")
    assert html.count('<svg class="network"') == 6
    assert 'class="bars"' not in html
    assert f"the best {scene.noun}" in html
    assert scene.name_of(e.alternative[0].double().numpy()) in html
    assert f'<th scope="col">{scene.noun.capitalize()}</th>' in html


def test_a_problem_of_ones_own_is_configured_reported_and_served(example: Path) -> None:
    configure(example, "problem", "outside", 'class = "outside:Towns"')
    layer = _predict(example, len(ROADS))
    e, html = explained(example)
    listed = Towns().list_decisions(1000)
    assert listed is not None
    assert torch.allclose(layer(e.x0.double()).detach(), e.costs_before.double(), atol=1e-6)
    assert e.valid.any()
    assert _is_best(e, listed)[e.valid].all()
    assert all(f">{town}</text>" in html for town in TOWNS)
    answer = served(example, {"kind": "absolute", "alternative": {"row": 0}})
    scene = answer.pipeline["scene"]
    assert scene["kind"] == "network"
    arcs = [(scene["places"][a], scene["places"][b]) for a, b in scene["arcs"]]
    assert arcs == list(ROADS.values())
    assert [entry["name"] for entry in scene["entries"]] == list(ROADS)
    # By the predictor and the list of all ways alone: what is asked for, and that it is best now.
    asked = np.array(answer.result["asked_decision"])
    assert np.array_equal(asked, listed[(layer(e.x0[:1]).detach().numpy() @ listed.T).argmin()])
    towns = [town for town in answer.result["asked_path"] if town in TOWNS]
    assert len(towns) == asked.sum() + 1
    assert answer.result["valid"]
    x = torch.tensor(answer.result["after"]["values"], dtype=torch.float64)
    costs = layer(x).detach().numpy()
    assert costs @ asked <= (listed @ costs).min() + 1e-5 * np.abs(costs).sum()
    assert cfopt.Explanation.from_json(answer.document).x[0].tolist() == x.tolist()


def _road_files(example: Path) -> None:
    """Roads and towns as files, in place of the example's grid."""
    pd.DataFrame(ROADS.values(), columns=["from", "to"]).to_csv(
        example.parent / "roads.csv", index=False
    )
    places = [(town, x, y) for town, (x, y) in TOWNS.items()]
    pd.DataFrame(places, columns=["node", "x", "y"]).to_csv(
        example.parent / "towns.csv", index=False
    )
    change(example, _GRID, _NETWORK)


def test_a_road_network_needs_only_files(example: Path) -> None:
    _road_files(example)
    layer = _predict(example, len(ROADS))
    done = cf("explain", example)
    assert done.exit_code == 0, done.output
    problem = work_of(example).pipeline.problem
    assert isinstance(problem, ShortestPath)
    assert problem.edges == tuple(ROADS.values())
    folder = example.parent / "results"
    e = cfopt.Explanation.from_json(folder / "explanations.jsonl")
    # The same roads, written down as a list of all ways.
    listed = Towns().list_decisions(1000)
    assert listed is not None
    best = listed[(layer(e.x0.double()).detach().numpy() @ listed.T).argmin(axis=1)]
    assert np.array_equal(e.factual.numpy(), best)
    assert e.valid.any()
    assert _is_best(e, listed)[e.valid].all()
    assert problem.coordinates is not None
    placed = dict(zip(problem.nodes, map(tuple, problem.coordinates.tolist()), strict=True))
    assert placed == TOWNS
    html = (folder / "report.html").read_text()
    assert '<svg class="network"' in html
    assert 'class="bars"' not in html
    assert all(f">{town}</text>" in html for town in TOWNS)


@pytest.mark.parametrize(
    ("roads", "said"),
    [
        ("from,to\nAix,Bern\nBern,\n", "needs a node in each row of from and to; row 1 lacks one"),
        ("from,to\nAix,Bern\nEze,Chur\n", "from 'Aix' to 'Eze'"),
        ("from,to\n1,2\n2,3\n", "The source 'Aix' is not a node of any edge"),
        ("start,end\nAix,Bern\nBern,Eze\n", "roads.csv"),
    ],
)
def test_a_file_that_is_not_a_network_is_refused(example: Path, roads: str, said: str) -> None:
    _road_files(example)
    (example.parent / "roads.csv").write_text(roads)
    refused(cf("explain", example), said)


def test_nodes_are_numbers_where_all_of_them_are(example: Path) -> None:
    _road_files(example)
    (example.parent / "roads.csv").write_text("from,to,km\n1,2,5\n2,3,6\n1,3,20\n")
    change(example, _NETWORK, _NETWORK.replace('"Aix"', "1").replace('"Eze"', "3"))
    change(example, ', coordinates = { file = "towns.csv" }', "")
    _predict(example, 3)
    problem = work_of(example).pipeline.problem
    assert isinstance(problem, ShortestPath)
    assert problem.edges == ((1, 2), (2, 3), (1, 3))
