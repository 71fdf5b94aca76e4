"""Problems of users' own in the explorer, drawn from the one file in which they stand."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.browsing import BROWSER, Server, Visit, command_serving
from tests.extensions import outside

from cfopt.problems import GridShortestPath

pytestmark = BROWSER
_CONFIG = """\
title = "Between towns"

[predictor]
class = "torch.nn.Linear"
arguments = {{ in_features = 2, out_features = {costs} }}
weights = "roads.safetensors"

[problem]
class = "outside.{problem}"
arguments = {{ {arguments} }}

[contexts]
file = "days.csv"

[features]
names = ["snow", "traffic"]

[criterion]
kind = "Epsilon"
epsilon = 0.1
"""


@pytest.fixture(params=[("Towns", "", 8), ("Assignment", "people = 3", 9)], ids=["towns", "jobs"])
def served(request: Any, tmp_path: Path, browser: Any) -> Iterator[tuple[str, Visit]]:
    problem, arguments, costs = request.param
    shutil.copy(outside.__file__, tmp_path / "outside.py")
    config = _CONFIG.format(problem=problem, arguments=arguments, costs=costs)
    (tmp_path / "CONFIG.toml").write_text(config)
    (tmp_path / "days.csv").write_text("snow,traffic\n0,0\n1,2\n")
    # At first the first entries are the cheapest; snow makes them dear.
    bias = 1 + 0.1 * torch.arange(float(costs))
    weight = torch.stack([torch.arange(float(costs)).flip(0) / costs, torch.zeros(costs)], dim=1)
    save_file({"weight": weight, "bias": bias}, tmp_path / "roads.safetensors")
    with command_serving("--trust", "--config", str(tmp_path / "CONFIG.toml")) as server:
        here = Visit(browser, server)
        yield problem, here
        here.close()


@pytest.mark.long
def test_an_outside_problem_is_drawn_and_asked_about_in_the_page(
    served: tuple[str, Visit],
) -> None:
    problem, here = served
    page = here.open("/#own")
    count = {"Towns": len(outside.TOWNS), "Assignment": 6}[problem]
    assert page.locator("#drawing svg.network circle.node").count() == count
    if problem == "Towns":
        assert page.locator("#decided").inner_text().startswith("Aix-pass-Bern-Eze")
        label = page.locator("#drawing text", has_text="Dijon").bounding_box()
        page.mouse.click(label["x"] + label["width"] / 2, label["y"] + label["height"] + 5)
        wanted = [float(name in ("plain", "river", "coast")) for name in outside.ROADS]
    else:
        for name in ("P1 does J1", "P2 does J2"):
            page.get_by_role("checkbox", name=name).uncheck()
        for name in ("P1 does J2", "P2 does J1"):
            page.get_by_role("checkbox", name=name).check()
        wanted = np.eye(3)[[1, 0, 2]].reshape(-1).tolist()
    with page.expect_request("**/api/explain") as asked:
        here.explain()
    assert asked.value.post_data_json["question"]["alternative"] == wanted
    assert "alid." in here.answer()
    assert page.locator("#result svg.network").count() == 2
    if problem == "Towns":
        _ask_by_names(here)


def _ask_by_names(here: Visit) -> None:
    """Over HTTP a route is asked about by its towns, and by the road where there are two."""
    path = ["Aix", "tunnel", "Bern", "Chur", "Eze"]
    question = {"kind": "absolute", "alternative": {"path": path}}
    asked = {"pipeline": "own", "context": {"row": 1}, "question": question, "plausible": False}
    task = here.page.request.post(f"{here.server.url}/api/explain", data=asked).json()
    done = here.server.until(lambda: here.server.get(task["url"])["result"])
    assert done["asked_path"] == path
    assert done["asked"] == "-".join(path)


@pytest.fixture(scope="module")
def streets(server: Server, browser: Any) -> Iterator[Any]:
    """The page with the streets across town."""
    here = Visit(browser, server)
    yield here.open("/#grid")
    here.close()


@pytest.fixture
def ways(streets: Any) -> Any:
    """The page's own search for the cheapest way, called with a scene, wishes and costs."""
    return lambda *given: streets.evaluate(
        """async ([scene, wishes, costs]) => {
             const { Ways } = await import("/static/ways.js");
             return new Ways(scene).through(wishes, costs);
           }""",
        list(given),
    )


@pytest.mark.parametrize(
    ("names", "title", "values"),
    [
        (["day=work", "day=sunday"], "day", ["work", "sunday"]),
        (["a=b=c", "a=b=d"], "a=b", ["c", "d"]),
        (["north", "south"], "one of", ["north", "south"]),
        (["day=work", "night=work"], "one of", ["day=work", "night=work"]),
    ],
)
def test_the_values_of_a_category_stand_under_its_name(
    streets: Any, names: list[str], title: str, values: list[str]
) -> None:
    shown = streets.evaluate(
        """async (names) => {
             const { Features } = await import("/static/features.js");
             const host = document.createElement("div");
             const features = names.map((name) => ({ name, group: 0, min: 0, max: 1, step: 1 }));
             new Features(host, features, {});
             const choice = host.querySelector(".choice");
             const options = [...choice.querySelectorAll("option")].map((one) => one.textContent);
             return [choice.querySelector(".name").textContent, options];
           }""",
        names,
    )
    assert shown == [title, values]


def test_the_page_leads_a_route_the_cheapest_way_through_what_was_clicked(ways: Any) -> None:
    """Against all routes of a grid: newer clicks count first, those that do not fit are dropped."""
    problem = GridShortestPath(4, 4)
    scene, routes = problem.scene(), problem.decisions().numpy()
    ends = np.array(scene.arcs)
    visits = np.array([np.isin(np.arange(16), ends[y > 0.5]) for y in routes])
    random = np.random.default_rng(0)
    for _ in range(25):
        costs = random.normal(0.5, 1, len(scene.arcs))
        clicked = random.choice(np.arange(1, 15), 3, replace=False).tolist()
        possible, kept = np.ones(len(routes), dtype=bool), []
        for place in reversed(clicked):
            if (possible & visits[:, place]).any():
                possible &= visits[:, place]
                kept.insert(0, {"place": place})
        found = ways(scene.to_dict(), [{"place": place} for place in clicked], costs.tolist())
        assert found["kept"] == kept
        assert sum(costs[found["arcs"]]) == pytest.approx((routes @ costs)[possible].min())


def test_the_page_takes_the_very_road_that_was_clicked(ways: Any) -> None:
    problem = outside.Towns()
    scene, names = problem.scene().to_dict(), list(outside.ROADS)
    for road, costs in itertools.product(names, (np.ones(8), -np.arange(8.0))):
        through = [y for y in problem.decisions().numpy() if y[names.index(road)]]
        found = ways(scene, [{"arc": names.index(road)}], costs.tolist())
        taken = np.isin(np.arange(8), found["arcs"])
        assert any((taken == y).all() for y in through), (road, costs, found)
