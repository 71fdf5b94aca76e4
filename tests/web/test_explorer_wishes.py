"""Wishes on the page: through here, not here, with all the rest left open."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.browsing import BROWSER, Visit

pytestmark = BROWSER


def test_a_street_an_item_or_a_cell_is_wished_for_or_not_with_one_click(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open("/#grid")
    names = page.request.get(f"{here.server.url}/api/pipelines/grid").json()["decision_names"]
    decided = json.loads(page.locator("#drawing").get_attribute("data-decision"))
    here.choose("wish", "avoids")
    page.locator("#wish-entry").select_option(
        label=next(name for name, taken in zip(names, decided, strict=True) if taken)
    )
    here.choose("wish", "uses")
    surface = page.locator("#drawing .surface")
    box = surface.bounding_box()
    # The street from P to U, on the left.
    surface.click(position={"x": 0.1 * box["width"], "y": 0.8 * box["height"]})
    assert page.locator("#wanted-said").inner_text() == "Any route with P-U, and without A-B."
    here.explain()
    assert here.answer().startswith("Valid.")
    assert "Why not through P-U and without A-B?" in page.locator("#result-title").inner_text()
    here.until("location.hash.includes('uses=') && location.pathname.startsWith('/t/')")
    other = visit()
    seen = other.open(page.url.removeprefix(other.server.url))
    assert seen.locator("#wanted-said").inner_text() == "Any route with P-U, and without A-B."
    # A whole plan takes the place of a wish, and Ctrl+Z brings it back.
    page.get_by_label("or take the decision of").select_option(index=8)
    page.locator("#wanted-said", has_text="It would cost").wait_for()
    page.keyboard.press("Control+z")
    page.locator("#wanted-said", has_text="Any route with P-U").wait_for()
    page = here.open("/?items#knapsack")
    words = page.locator("#wish-modes span").all_inner_texts()
    assert words == ["All of it", "With this", "Without this"]
    page = here.open("/?map#terrain")
    here.choose("tool", "uses")
    page.mouse.click(*here.cell(6, 5))
    here.choose("tool", "avoids")
    page.mouse.click(*here.cell(11, 0))
    said = "Any route with F7, and without A12."
    assert page.locator("#route-said").inner_text() == said
    assert page.locator(".mark-uses").count() == 2
    with here.server.holding():
        with page.expect_request("**/api/explain") as asked:
            here.explain()
        here.cancel()
    question = asked.value.post_data_json["question"]
    assert (question["uses"], question["avoids"]) == ([6 * 12 + 5], [11 * 12])
    assert "alternative" not in question
