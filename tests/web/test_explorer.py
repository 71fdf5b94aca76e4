"""The explorer in a real browser, as its users meet it; left out where there is no Chromium."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browsing import BROWSER, FAR, NEAR, Visit
from tests.legible import FAINT, NAMELESS, PAPER

pytestmark = BROWSER
#: What is said of an answer about a map.
LAND = re.compile(r"(grass|forest|water|rock|earth) at [A-L]\d+")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_the_page_loads_with_a_map_its_route_and_its_costs(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    assert here.path()[0] == [0, 0]
    assert here.path()[-1] == [11, 11]
    assert page.locator("#thumbs input").count() == 48
    page.get_by_label("Predicted costs").check()
    assert page.locator("#board .cell").count() == 144
    assert page.locator("#legend dd").first.inner_text().startswith("costs 2")


def test_a_drawn_route_is_explained_with_a_valid_map_that_can_be_shared(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    here.drag(*NEAR)
    assert "12 cells to L12, complete" in page.locator("#route-said").inner_text()
    page.locator("#map-ask label.check:has-text('naive')").click()
    here.explain()
    assert here.answer().startswith("Valid.")
    assert page.locator(".compare").count() == 2
    here.choose("view", "pictures")
    plausible, naive = (page.locator(".compare").nth(k) for k in (0, 1))
    # The shipped model begins with the map itself, so that there is no third picture.
    for shown in (plausible, naive):
        assert shown.locator("figcaption").all_inner_texts() == ["Yours", "The answer"]
        assert len({image.get_attribute("href") for image in shown.locator("image").all()}) == 2
    words = page.locator(".pair > figure > .small").all_inner_texts()
    assert LAND.search(words[0])
    assert "though it looks the same" in words[1]
    here.choose("view", "map")
    slider = page.locator(".compare .split").first
    slider.focus()
    page.keyboard.press("End")
    assert slider.input_value() == "100"
    here.choose("view", "change")
    page.locator(".compare .split").first.wait_for(state="detached")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Naive JSON").click()
    document = json.loads(Path(saved.value.path()).read_text())
    assert document["request"]["question"]["kind"] == "absolute"
    assert document["request"]["plausible"] is False
    assert saved.value.suggested_filename.startswith("explanation-")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Plausible PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    other = visit()
    link = page.url.removeprefix(other.server.url)
    other.open(link)
    assert other.answer() == here.answer()
    assert other.page.locator(".compare").count() == 2

    def redrawn(route: Any) -> None:
        """As if the model could not draw the map as it is."""
        answer = route.fetch()
        task = answer.json()
        task["result"]["redrawn"] = task["result"]["before"]
        route.fulfill(response=answer, json=task)

    other.page.route("**/api/tasks/*", redrawn)
    other.open(link.partition("#")[0] + "?alone")
    assert LAND.search(other.page.locator("#result .statement").inner_text())
    shown = other.page.locator(".compare figcaption").all_inner_texts()
    assert shown == ["Yours", "As the model redraws it", "The answer"]


def test_what_is_no_image_is_refused_in_words_and_the_page_goes_on(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    page.set_input_files("#upload", {"name": "map.png", "mimeType": "image/png", "buffer": b"no"})
    page.locator("#notice p", has_text="image").wait_for()
    page.set_input_files("#upload", {"name": "map.png", "mimeType": "image/png", "buffer": _png()})
    page.get_by_role("button", name="Use this part").click()
    page.locator("#map-name", has_text="map.png").wait_for()
    # Grey all over is an image, but not one of the models' kind.
    page.locator("#notice p", has_text="does not look like").wait_for()
    assert here.path()[-1] == [11, 11]


def test_painted_terrain_changes_the_route_at_once_and_can_be_undone(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    before = here.path()
    here.choose("tool", "paint")
    here.choose("terrain", "rock")
    row, column = before[5]
    here.drag((row, column), (row + 1, column), (row, column - 1))
    here.until(
        "before => document.getElementById('board').dataset.path !== before",
        json.dumps(before, separators=(",", ":")),
    )
    assert [row, column] not in here.path()
    assert "before painting" in page.locator("#legend").inner_text()
    page.get_by_role("button", name="Undo").click()
    here.until(
        "before => document.getElementById('board').dataset.path === before",
        json.dumps(before, separators=(",", ":")),
    )


@pytest.mark.long
def test_a_narrow_screen_is_enough_and_fingers_draw(visit: Callable[..., Visit]) -> None:
    here = visit(**PHONE)
    page = here.open()
    for row, column in NEAR[1:]:
        page.touchscreen.tap(*here.cell(row, column))
    assert "complete" in page.locator("#route-said").inner_text()
    here.explain()
    assert here.answer().startswith("Valid.")
    assert _fits(page)
    for name in ("flights", "grid", "knapsack"):
        here.open(f"/?{name}#{name}")
        assert _fits(page)


def test_the_keyboard_alone_leads_from_the_start_to_an_answer(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    # How long the search takes is not what this is about.
    here.page.route(
        "**/api/explain",
        lambda route: route.continue_(
            post_data=json.dumps(route.request.post_data_json | {"time_limit": 1.0})
        ),
    )
    page = here.open()
    keys = page.keyboard
    _tab_to(page, "surface")
    for _ in range(5):
        keys.press("PageDown")
    assert "F6: predicted cost" in page.locator("#polite").inner_text()
    keys.press("Enter")
    keys.press("ArrowLeft")
    keys.press("Enter")
    assert "7 cells so far, to E6" in page.locator("#route-said").inner_text()
    keys.press("Backspace")
    assert "6 cells so far, to F6" in page.locator("#route-said").inner_text()
    keys.press("f")
    assert "complete" in page.locator("#route-said").inner_text()
    _tab_to(page, "kind-map-ask")
    keys.press("ArrowDown")
    _tab_to(page, "primary")
    keys.press("Enter")
    assert here.answer().startswith(("Valid.", "Already valid.", "Best effort."))
    # Whoever listens is taken to the answer.
    assert page.evaluate("document.activeElement.id") == "result-title"


def test_sliders_move_the_decision_and_a_locked_feature_stays(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open("/#grid")
    decision = page.locator("#drawing").get_attribute("data-decision")
    sliders = page.locator("#features input[type=range]")
    for k in range(5):
        sliders.nth(k).focus()
        page.keyboard.press("Home")
    here.until("before => document.getElementById('drawing').dataset.decision !== before", decision)
    here.settle()
    moved = page.locator("#decided").inner_text()
    page.get_by_role("checkbox", name="Lock rain").check(force=True)
    page.get_by_role("button", name="traffic in an answer").click()
    page.get_by_label("traffic at least").fill("0")
    page.locator(".why", has_text="Traffic is outside the range").wait_for()
    page.get_by_label("traffic at least").fill("-3")
    page.get_by_label("traffic at most").fill("0")
    surface = page.locator("#drawing .surface")
    # The corner of the grid that no shortest way takes by itself.
    box = surface.bounding_box()
    surface.click(position={"x": 0.1 * box["width"], "y": 0.9 * box["height"]})
    assert "It would cost" in page.locator("#wanted-said").inner_text()
    here.explain()
    assert here.answer().startswith("Valid.")
    assert "What is proved" in page.locator("#result .notes").inner_text()
    assert "rain" not in page.locator("#result .changes tbody").inner_text()
    assert page.locator("#decided").inner_text() == moved
    other = visit()
    other.open(page.url.removeprefix(other.server.url))
    assert other.answer() == here.answer()
    assert other.page.locator("#decided").inner_text() == moved


def test_items_are_chosen_by_hand_and_too_many_are_refused_in_words(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open("/#knapsack")
    for k in range(6):
        page.locator("#drawing [data-item]").nth(k).click()
    page.locator("#table-ask-why", has_text="Your selection is too heavy").wait_for()
    assert page.locator("#table-ask .primary").get_attribute("aria-disabled") == "true"
    here.wish_for_row(8)
    page.locator("#wanted-said", has_text="It would be worth").wait_for()
    here.explain()
    assert "item" in here.answer()
    assert page.locator("#result svg.bars").count() == 2


def test_the_skip_link_leads_to_the_content_and_keeps_the_address(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open("/#grid")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert "/#grid" in page.url
    assert page.locator("#table-view").is_visible()


def test_an_emptied_box_shows_again_what_counts(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open("/#grid")
    box = page.get_by_label("rain, exactly")
    box.fill("1.5")
    box.fill("")
    page.keyboard.press("Tab")
    assert box.input_value() == "1.5"
    with page.expect_response("**/api/decide"):
        box.fill("1e200")
    here.until("document.getElementById('decided').textContent.includes('e+')")
    assert len(page.locator("#decided").inner_text()) < 80


def test_painting_is_told_and_buttons_keep_the_focus(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    here.drag(*NEAR)
    here.choose("tool", "paint")
    clear = page.get_by_role("button", name="Clear")
    clear.click()
    assert clear.get_attribute("aria-disabled") == "true"
    assert page.evaluate("document.activeElement.id") == "clear"
    page.get_by_role("button", name="Undo").click()
    assert "complete" in page.locator("#polite").inner_text()
    here.choose("terrain", "rock")
    row, column = here.path()[5]
    before = page.locator("#readout").inner_text()
    here.drag((row, column))
    page.locator("#map-name", has_text="Map 1, painted").wait_for()
    assert page.locator("#thumbs input:checked").count() == 0
    here.until("before => document.getElementById('readout').textContent !== before", before)
    page.get_by_role("button", name="Reset").click()
    here.until("document.getElementById('map-name').textContent === 'Map 1'")
    assert page.locator("#thumbs input:checked").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_and_all_controls_have_names(
    visit: Callable[..., Visit], scheme: str
) -> None:
    here = visit(color_scheme=scheme, reduced_motion="reduce")
    for path in ("/#terrain", "/?grid#grid", "/?knapsack#knapsack"):
        page = here.open(path)
        assert (page.evaluate(PAPER) < 60) == (scheme == "dark")
        _legible(page)
    here.page.goto(f"{here.server.url}/docs")
    _legible(here.page)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_searches_answers_and_messages_can_be_read_as_well(
    visit: Callable[..., Visit], scheme: str
) -> None:
    here = visit(color_scheme=scheme, reduced_motion="reduce")
    page = here.open()
    here.drag(*FAR)
    with here.server.holding():
        here.explain()
        page.locator(".progress:visible", has_text="Searching").wait_for()
        _legible(page)
        here.cancel()
    _legible(page)
    page.set_input_files("#upload", {"name": "map.png", "mimeType": "image/png", "buffer": b"no"})
    page.locator("#notice:not(.calm)").wait_for()
    _legible(page)
    page.get_by_role("button", name="Clear").click()
    here.drag(*NEAR)
    page.locator("#map-ask label.check:has-text('naive')").click()
    here.explain()
    here.answer()
    _legible(page)
    page = here.open("/?knapsack#knapsack")
    here.wish_for_row(8)
    page.locator("#wanted-said", has_text="It would be worth").wait_for()
    here.explain()
    here.answer()
    _legible(page)


def _legible(page: Any) -> None:
    assert page.evaluate(FAINT) == []
    assert page.evaluate(NAMELESS) == []


def _fits(page: Any) -> bool:
    """Whether nothing is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def _tab_to(page: Any, name: str, limit: int = 60) -> None:
    """Press Tab until something of a class or a name has the focus."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        if page.evaluate(
            "name => document.activeElement.classList.contains(name) "
            "|| document.activeElement.name === name",
            name,
        ):
            return
    pytest.fail(f"Tab does not reach {name}")


def _png() -> bytes:
    """A grey image of 40 x 30 pixels."""

    def part(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    rows = (b"\0" + b"\x80" * 40) * 30
    head = struct.pack(">IIBBBBB", 40, 30, 8, 0, 0, 0, 0)
    parts = part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
