"""Pipelines of users' own in the explorer: whole numbers to give, faults, maps of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.browsing import BROWSER, Server, Visit, command_serving

from cfopt.datasets import Terrain
from cfopt.models.terrain import FOLDER, PREDICTOR

pytestmark = BROWSER
_MODEL = """\
Maximize
 profit: chairs + desks - 60 rented
Subject To
 hours: 2 chairs + 3 desks - 30 rented <= 60
Bounds
 chairs <= 25
 desks <= 20
 rented <= 1
General
 chairs desks rented
End
"""
_CONFIG = """\
title = "A workshop"

[predictor]
class = "torch.nn.Linear"
arguments = { in_features = 2, out_features = 3 }
weights = "margins.safetensors"

[problem]
file = "mix.lp"

[contexts]
file = "weeks.csv"

[features]
names = ["wood", "orders"]
lower = { wood = 0, orders = 0 }
upper = { wood = 10, orders = 10 }
only_increase = ["orders"]

[criterion]
kind = "Epsilon"
epsilon = 0.1
"""
_HILLS = """\
title = "Our hills"

[predictor]
class = "cfopt.predictors.CompactCNN"
weights = "{weights}"

[problem]
kind = "TerrainShortestPath"
arguments = {{ rows = 3, cols = 5 }}

[contexts]
file = "maps.npy"

[criterion]
kind = "Epsilon"
epsilon = 0.05
"""


@pytest.fixture(scope="module", name="server")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("workshop")
    (folder / "mix.lp").write_text(_MODEL)
    (folder / "CONFIG.toml").write_text(_CONFIG)
    (folder / "weeks.csv").write_text("wood,orders\n3,5\n8,2\n")
    # Chairs suffer from dear wood; desks are for orders; the rent stays.
    weight, bias = torch.tensor([[-1.0, 0.0], [-0.5, 2.0], [0.0, 0.0]]), [15.0, 6.0, -60.0]
    save_file({"weight": weight, "bias": torch.tensor(bias)}, folder / "margins.safetensors")
    with command_serving("--config", str(folder / "CONFIG.toml")) as running:
        yield running


@pytest.mark.long
def test_whole_numbers_are_asked_about_by_hand(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open("/#own")
    assert "may only rise" in page.get_by_role("button", name="orders in an answer").inner_text()
    page.get_by_label("chairs", exact=True).fill("24")
    page.get_by_label("desks", exact=True).fill("4")
    page.get_by_label("rented", exact=True).set_checked(False)
    said = page.locator("#wanted-said").inner_text()
    # 24 x (15 - 3) + 4 x (6 - 1.5 + 10)
    assert said.startswith("Chairs = 24 and desks = 4. It would be worth 346,")
    page.get_by_text("When would mine have beaten").click()
    with page.expect_request("**/api/explain") as asked:
        here.explain()
    assert asked.value.post_data_json["question"]["alternative"] == [24, 4, 0]
    answer = here.answer()
    other = visit()
    other.open(page.url.removeprefix(other.server.url))
    assert other.answer() == answer
    assert other.page.get_by_label("chairs", exact=True).input_value() == "24"


@pytest.mark.long
def test_a_pipeline_that_cannot_be_loaded_says_so(
    tmp_path: Path,
    browser: Any,
) -> None:
    config = tmp_path / "CONFIG.toml"
    config.write_text(_CONFIG)
    (tmp_path / "margins.safetensors").write_text("no weights")
    (tmp_path / "weeks.csv").write_text("wood,orders\n3,5\n")
    (tmp_path / "mix.lp").write_text(_MODEL)
    with command_serving("--config", str(config)) as server:
        here = Visit(browser, server)
        page = here.open()
        page.locator("#pipelines a[href$=own]").click()
        page.locator("#notice p", has_text="could not be loaded").wait_for()
        assert page.locator("#map-view, #table-view").filter(visible=True).count() == 0
        page.locator("#pipelines a[href$=grid]").click()
        page.locator("#table-legend div").first.wait_for()
        assert page.locator("#notice").is_hidden()
        here.close()


@pytest.mark.long
def test_maps_of_other_sizes_are_drawn_on_and_explained(tmp_path: Path, browser: Any) -> None:
    config = tmp_path / "CONFIG.toml"
    config.write_text(_HILLS.format(weights=FOLDER / PREDICTOR))
    np.save(tmp_path / "maps.npy", Terrain(3, 5).generate(4).images.numpy())
    with command_serving("--config", str(config)) as server:
        here = Visit(browser, server)
        page = here.open()
        # There is nothing to paint with; a click on the far corner leads the route there.
        assert page.locator("#tools, #palette").filter(visible=True).count() == 0
        box = page.locator("#board .surface").bounding_box()
        page.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 0.9 * box["height"])
        page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.9 * box["height"])
        assert "7 cells to E3, complete" in page.locator("#route-said").inner_text()
        page.get_by_text("When would mine have beaten").click()
        here.explain()
        here.answer()
        # What can be grabbed between before and after lies where the map is.
        slider = page.locator(".compare .split").bounding_box()
        image = page.locator(".compare image").first.bounding_box()
        for side in ("x", "y", "width", "height"):
            assert slider[side] == pytest.approx(image[side], abs=1.5)
        here.close()
