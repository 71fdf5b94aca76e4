"""Scenes: what a problem says of its decisions in its own file is what every renderer draws."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extensions import outside
from tests.extensions.outside import ROADS, Assignment, Towns

from cfopt.drawing import palette
from cfopt.drawing.panel import Line, Panel
from cfopt.drawing.svg import common, draw, sketch
from cfopt.errors import InputError
from cfopt.problems import GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.problems.network_scene import Network
from cfopt.problems.scene import Bars, Entry, Scene
from cfopt.testing import ProblemContract

ROOT = Path(__file__).parents[2]


class TestTowns(ProblemContract):
    def problem(self) -> Towns:
        return Towns()


class TestAssignment(ProblemContract):
    def problem(self) -> Assignment:
        return Assignment(3)


def _decision(*roads: str) -> np.ndarray:
    return np.array([float(name in roads) for name in ROADS])


def _panel(scene: Scene, strong: np.ndarray, *weak: np.ndarray) -> Panel:
    prices = np.arange(1.0, len(strong) + 1)
    others = tuple(Line(decision, "other") for decision in weak)
    return Panel(scene, prices, Line(strong, "factual"), others, 1.0, float(len(strong)), "seen")


def test_a_route_is_said_by_its_places_and_by_the_road_where_there_are_two() -> None:
    scene = Towns().scene()
    tunnel = _decision("tunnel", "down", "coast")
    assert scene.path_of(tunnel) == ["Aix", "tunnel", "Bern", "Chur", "Eze"]
    assert scene.name_of(tunnel) == "Aix-tunnel-Bern-Chur-Eze"
    assert (scene.decision_of(["Aix", "pass", "Bern", "Eze"]) == _decision("pass", "ridge")).all()
    plain = _decision("plain", "river", "coast")
    assert scene.name_of(plain) == "Aix-Dijon-Chur-Eze"
    # Without the name of a road, the first of those side by side is meant.
    assert (scene.decision_of(["Aix", "Bern", "Eze"]) == _decision("pass", "ridge")).all()


def test_a_long_route_on_a_map_is_said_by_its_bends() -> None:
    problem = TerrainShortestPath(12, 12)
    rng = np.random.default_rng(0)
    for decision in problem.optimise(rng.uniform(0.9, 1.3, (20, 144))):
        name = problem.cached_scene.name_of(decision)
        assert " by " not in name
        bends = [(int(one[1:]) - 1, ord(one[0]) - 65) for one in name.split()[-1].split("-")]
        walked = np.zeros((12, 12))
        for (row, column), (below, right) in itertools.pairwise(bends):
            steps = max(abs(below - row), abs(right - column))
            for k in range(steps + 1):
                walked[row + (below - row) * k // steps, column + (right - column) * k // steps] = 1
        assert np.array_equal(walked.flatten(), decision)


@pytest.mark.parametrize(
    "roads",
    [
        ("plain", "river"),  # does not arrive
        ("pass", "tunnel", "ridge"),  # branches
        ("pass", "ridge", "up"),  # a road on its own
        ("pass", "down", "up", "ridge"),  # goes in a circle
    ],
)
def test_what_is_not_a_simple_route_has_no_path(roads: tuple[str, ...]) -> None:
    scene = Towns().scene()
    assert scene.path_of(_decision(*roads)) is None
    assert scene.path_of(0.5 * _decision(*roads)) is None
    assert scene.name_of(_decision(*roads)) == "the given visits, which are not a simple route"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (["Aix", "Rome"], "there is no 'Rome'"),
        (["Aix", "Eze"], "no arc from Aix to Eze"),
        (["Aix", "river", "Bern", "Eze"], "no arc from Aix to Bern"),
        (["Bern", "Eze"], "needs to start at Aix, got Bern"),
        (["Aix", "Bern"], "needs to end at Eze, got Bern"),
    ],
)
def test_a_path_that_breaks_off_is_refused(path: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Towns().scene().decision_of(path)


def test_an_undirected_arc_is_taken_in_either_direction() -> None:
    scene = Network(
        entries=tuple(Entry(name) for name in ("ab", "cb", "cd")),
        places=tuple("abcd"),
        arcs=((0, 1), (2, 1), (2, 3)),
        directed=False,
        start=0,
        goal=3,
    )
    assert scene.path_of(np.ones(3)) == list("abcd")
    assert (scene.decision_of(list("abcd")) == 1).all()
    assert scene.path_of(np.array([1.0, 0.0, 1.0])) is None
    assert not scene.arrows
    # Without coordinates, places lie in columns by how far they are from the start.
    assert [x for x, _ in scene.positions] == [0, 1, 2, 3]


def test_arcs_beside_each_other_are_drawn_apart_and_each_way_keeps_to_the_right() -> None:
    scene = Towns().scene()
    bend = dict(zip(scene.names, scene.bends, strict=True))
    assert bend["pass"] == -bend["tunnel"] != 0
    assert bend["down"] == bend["up"] > 0
    assert bend["plain"] == bend["ridge"] == 0
    assert scene.arrows  # "up" leads to the left
    assert not GridShortestPath(3, 3).scene().arrows


def test_coordinates_of_any_unit_give_the_same_picture() -> None:
    small, scene = Towns().scene(), Towns().scene()
    large = Network(
        entries=scene.entries,
        places=scene.places,
        arcs=scene.arcs,
        start=scene.start,
        goal=scene.goal,
        positions=tuple((5e6 + 1000 * x, 1000 * y) for x, y in outside.TOWNS.values()),
    )
    assert np.allclose(large.positions, small.positions, atol=1e-3)
    at = np.array(small.positions)
    lengths = np.hypot(*(at[[a for a, _ in small.arcs]] - at[[b for _, b in small.arcs]]).T)
    assert np.median(lengths) == pytest.approx(1, abs=0.01)


def test_a_network_in_svg_has_every_place_and_the_arcs_that_are_taken() -> None:
    scene = Towns().scene()
    panel = _panel(scene, _decision("pass", "ridge"), _decision("plain", "river", "coast"))
    drawing = str(draw(panel, standalone=True))
    assert "<use" not in drawing
    for town in outside.TOWNS:
        assert f">{town}</text>" in drawing
    lines = dict(re.findall(r'<path class="line (\w+ \w+)" d="(.*?)"', drawing))
    assert {kind: data.count("M") for kind, data in lines.items()} == {
        "strong factual": 2,
        "weak other": 3,
    }
    assert "Q" in lines["strong factual"]  # one of two beside each other is bent
    assert "Q" not in lines["weak other"]
    costs = re.findall(r'class="cost slim c\d" d="(.*?)"', drawing)
    assert sum(data.count("M") for data in costs) == len(ROADS)
    assert "<use" in str(draw(panel))
    assert ">Bern</text>" in str(common(scene))
    assert "cost" not in str(sketch(panel))


def test_nothing_of_a_network_lies_outside_its_picture() -> None:
    for problem in (Towns(), Assignment(4), GridShortestPath(3, 3), GridShortestPath(9, 9)):
        drawing = str(draw(_panel(problem.scene(), np.ones(problem.num_costs)), standalone=True))
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing).groups())
        spots = re.findall(r'<circle class="[^"]*" cx="(\S+)" cy="(\S+)" r="(\S+)"', drawing)
        assert len(spots) == len(problem.scene().places)
        for x, y, r in (map(float, spot) for spot in spots):
            assert r <= x <= width - r
            assert r <= y <= height - r


def test_a_problem_that_is_not_known_is_drawn_as_bars() -> None:
    panel = _panel(Bars.unnamed(3), np.array([1.0, 0.0, 2.0]), np.array([1.0, 1.0, 0.0]))
    drawing = str(draw(panel))
    assert ">y1</text>" in drawing
    assert ">y0</text>" not in drawing  # in which the two do not differ


@pytest.mark.parametrize(
    ("problem", "kind", "noun"),
    [
        (GridShortestPath(3, 3), "network", "route"),
        (TerrainShortestPath(3, 3), "cells", "route"),
        (Knapsack([[1.0, 2.0]], [2.0]), "items", "selection"),
    ],
)
def test_each_problem_says_what_it_is(problem: Any, kind: str, noun: str) -> None:
    scene = problem.scene()
    assert (scene.kind, scene.noun, scene.nouns) == (kind, noun, f"{noun}s")
    assert problem.cached_scene is problem.cached_scene


def test_a_problem_with_new_names_has_a_new_scene() -> None:
    problem = Knapsack([[1.0, 2.0]], [2.0])
    assert problem.cached_scene.names == ("item 0", "item 1")
    assert problem.named(["tent", "stove"]).cached_scene.names == ("tent", "stove")


def test_all_renderers_have_the_same_colours(tmp_path: Path) -> None:
    """The palette feeds matplotlib directly, and report and page as custom properties."""
    from cfopt.plots import style

    css = palette.css()
    assert (palette.LIGHT["factual"], palette.LIGHT["other"]) == (style.FACTUAL, style.ALTERNATIVE)
    assert f"--factual: {style.FACTUAL};" in css
    assert f"--other: {style.ALTERNATIVE};" in css
    assert set(palette.LIGHT) == set(palette.DARK)
    sheets = list(ROOT.glob("src/cfopt/**/*.css"))
    assert len(sheets) == 4
    for sheet in sheets:
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"--(factual|other|third|rival\d|c\d|ink|change): *#", text), sheet


@pytest.mark.long
def test_a_report_is_written_without_matplotlib(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "import torch, cfopt\n"
        "from pathlib import Path\n"
        "from cfopt.report import write_report\n"
        "problem = cfopt.problems.GridShortestPath(3, 3)\n"
        "pipeline = cfopt.Pipeline(torch.nn.Linear(2, 12), problem)\n"
        "e = cfopt.explain(torch.ones(1, 2), pipeline, cfopt.Epsilon(0.1))\n"
        "write_report(e, Path(sys.argv[1]), title='t', seconds=1.0, settings={})\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "r.html")], check=True)
    assert '<svg class="network"' in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_no_layer_asks_which_problem_it_draws() -> None:
    names = "GridShortestPath|TerrainShortestPath|Knapsack|MILP|Finite|Oracle|PyEPOProblem"
    asks = re.compile(rf"isinstance\([^)]*\b({names})\b|singledispatch")
    for path in (ROOT / "src" / "cfopt").rglob("*.py"):
        if path.parent.name != "problems":
            assert not asks.search(path.read_text(encoding="utf-8")), path
