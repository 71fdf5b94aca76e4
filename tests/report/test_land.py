"""Answers about maps in words of the land, compared with maps that are put together by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cfopt
from cfopt.datasets import Terrain
from cfopt.datasets.terrain import COSTS, LAND
from cfopt.drawing.redrawn import origin_of
from cfopt.engine.latent import Codes
from cfopt.errors import InputError
from cfopt.problems import TerrainShortestPath
from cfopt.problems.land import checked_land, kinds_of_cells
from cfopt.report import write_report
from cfopt.report.changes import Changes, changes_of
from cfopt.report.overview import overview
from cfopt.report.pictures import galleries
from cfopt.report.trends import land_trend
from cfopt.result.status import Status

ROWS, COLS = 4, 5
TILES = Terrain().tiles()


def _map(names: list[str]) -> torch.Tensor:
    """An image `(3, H, W)` whose cells are these terrains, row by row."""
    tiles = [TILES[name].transpose(2, 0, 1) / 255 for name in names]
    rows = [np.concatenate(tiles[k : k + COLS], axis=2) for k in range(0, len(tiles), COLS)]
    return torch.from_numpy(np.concatenate(rows, axis=1))


def _costs(names: list[str]) -> torch.Tensor:
    return torch.tensor([sum(COSTS[name]) / 2 for name in names], dtype=torch.float64)


def _answer(before: list[str], after: list[str], land: dict[str, str] | None) -> cfopt.Explanation:
    """An answer from one map to another, as a search would have returned it."""

    class Looked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _costs(before).to(x).expand(len(x), -1) + 0 * x.flatten(1).sum(1, keepdim=True)

    problem = TerrainShortestPath(ROWS, COLS, land=land)
    x0 = _map(before)[None]
    e = cfopt.explain(x0, cfopt.Pipeline(Looked(), problem), cfopt.Epsilon(0.1), time_limit=0.01)
    assert e.status[0] is not Status.REJECTED
    return replace(
        e, x=_map(after)[None], costs=_costs(after)[None], status=(Status.VALID,), clash=(None,)
    )


def _told(e: cfopt.Explanation) -> Changes:
    return changes_of(e, [])


BEFORE = ["grass"] * (ROWS * COLS)
#: C3 and E2 turn to rock, A1 to forest.
AFTER = [{12: "rock", 9: "rock", 0: "forest"}.get(k, "grass") for k in range(ROWS * COLS)]


@pytest.fixture(scope="module")
def answer() -> cfopt.Explanation:
    return _answer(BEFORE, AFTER, LAND)


def test_the_land_of_cells_is_known_in_any_light_and_through_noise() -> None:
    draw = np.random.default_rng(0)
    for light in (0.75, 0.9, 1.0, 1.1):
        names = draw.choice(list(COSTS), ROWS * COLS).tolist()
        noisy = light * _map(names).numpy() + draw.normal(0, 0.02, (3, 8 * ROWS, 8 * COLS))
        shown = kinds_of_cells(noisy.clip(0, 1), (ROWS, COLS), checked_land(LAND))
        assert shown == names


def test_what_changed_is_said_of_the_land_and_not_of_pixels(answer: cfopt.Explanation) -> None:
    told = _told(answer)
    assert told.words == "Grass to rock at E2 and C3; grass to forest at A1."
    assert told.cells == (0, 9, 12)
    assert [change.name for change in told.rows] == [
        "E2, grass to rock",
        "C3, grass to rock",
        "A1, grass to forest",
    ]
    # Where nobody says what the land is called, what it costs can still be said.
    unknown = _told(_answer(BEFORE, AFTER, None))
    assert unknown.words == "Costlier at E2, C3 and A1."


def test_land_that_looks_the_same_is_not_called_another(answer: cfopt.Explanation) -> None:
    noise = torch.from_numpy(np.random.default_rng(1).normal(0, 0.05, answer.x0.shape))
    fooled = replace(answer, x=(answer.x0 + noise).clamp(0, 1))
    same = "Predicted to be costlier, though it looks the same, at E2, C3 and A1."
    assert _told(fooled).words == same
    darker = replace(answer, x=0.8 * answer.x0)
    assert _told(darker).words == "Costlier grass at E2, C3 and A1."
    nothing = replace(answer, x=answer.x0, costs=answer.costs_before)
    assert _told(nothing).words == "The land is as it was."


def test_changes_are_measured_from_what_the_model_alone_makes(
    answer: cfopt.Explanation, tmp_path: Path
) -> None:
    """The model cannot draw A1 as it is: that it is forest in the answer is not the answer's."""
    redrawn = ["forest", *BEFORE[1:]]
    z, decision = torch.zeros(1, 4, dtype=torch.float64), answer.factual
    codes = Codes(z, z, _map(redrawn)[None], decision, _costs(redrawn)[None])
    e = replace(answer, latent=codes)
    told = _told(e)
    assert told.words == (
        "Grass to rock at E2 and C3. Measured from the map as the generative model redraws it."
    )
    assert told.since == "redrawn"
    titles = [picture.title for picture in galleries(e)[0].pictures]
    assert titles[:3] == ["Before", "As the model redraws it", "After"]
    path = tmp_path / "report.html"
    page = write_report(e, path, title="Land", seconds=1.0, settings={}).read_text()
    assert '<th scope="col">redrawn</th>' in page
    # A decoder that is exact at the context adds nothing, and then there are two pictures.
    exact = replace(e, latent=replace(codes, reconstruction=e.x0, costs=e.costs_before))
    assert not origin_of(exact[0]).redrawn
    assert _told(exact).words == _told(answer).words
    titles = [picture.title for picture in galleries(exact)[0].pictures]
    assert titles[:2] == ["Before", "After"]
    back = cfopt.Explanation.from_json(e.to_json(), answer.problem)
    assert _told(back).words == told.words


def test_the_top_of_a_report_says_what_becomes_of_the_land(answer: cfopt.Explanation) -> None:
    """Of three answers two turn grass to rock and forest, one does not."""
    other = replace(answer, x=answer.x0, costs=answer.costs_before)
    e = replace(
        cfopt.Explanation.concat([answer, other, answer]), steps=torch.ones(3, dtype=torch.long)
    )
    said = "land would have to change from grass to rock in 2 of 3 answers and grass to forest in 2"
    assert said in land_trend(e)
    assert overview(e, 1.0).trend == land_trend(e)
    assert land_trend(e[[0, 1]]) == ""


@pytest.mark.parametrize("land", [{"grass": "green"}, {"grass": (1, 2, 3)}, ["grass"]])
def test_a_colour_that_is_none_is_refused_in_words(land: object) -> None:
    with pytest.raises(InputError, match="#6e9e48"):
        TerrainShortestPath(2, 2, land=land)
