"""The explorer in a real browser, as its users meet it; left out where there is no Chromium."""

from __future__ import annotations

import json
import os
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browsing import Server, Visit, browsing, command_serving, find_browser
from tests.legible import FAINT, NAMELESS, PAPER

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no chromium was found"),
]
#: A way that is nearly as good as the best of the first map: soon explained.
NEAR = ((0, 0), (6, 6), (11, 11))
#: A way through lake and forest, which takes a search some seconds.
FAR = ((0, 0), (0, 11), (11, 11))
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with command_serving() as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing(str(find_browser())) as opened:
        yield opened


@pytest.fixture
def visit(server: Server, browser: Any) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def start(**settings: Any) -> Visit:
        visits.append(Visit(browser, server, **settings))
        return visits[-1]

    yield start
    for one in visits:
        one.close()


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
    page.locator("#map-ask label.check").click()
    here.explain()
    assert here.answer().startswith("Valid.")
    assert page.locator(".compare").count() == 2
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
    other.open(page.url.removeprefix(other.server.url))
    assert other.answer() == here.answer()
    assert other.page.locator(".compare").count() == 2


def test_a_search_can_be_watched_and_cancelled(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    here.drag(*FAR)
    before = page.evaluate("document.querySelector('#board canvas').toDataURL()")
    here.explain()
    # It is the map itself that changes while the search runs.
    page.wait_for_function(
        "before => document.querySelector('#board canvas').toDataURL() !== before", arg=before
    )
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("The search was cancelled").wait_for()
    assert page.evaluate("document.querySelector('#board canvas').toDataURL()") == before
    assert page.locator("#result").is_hidden()
    here.server.until(lambda: here.server.searching() is None)


def test_a_search_that_is_left_for_another_page_is_given_up(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    page.get_by_label("or take the route of").select_option(index=4)
    page.locator("#route-said", has_text="complete").wait_for()
    page.get_by_role("button", name="Clear").click()
    here.drag(*FAR)
    here.explain()
    here.server.until(here.server.searching)
    page.locator("#pipelines a[href$=knapsack]").click()
    page.locator("#table-legend div").first.wait_for()
    here.server.until(lambda: here.server.searching() is None)
    assert page.locator("#result").is_hidden()
    page.go_back()
    page.locator("#legend div").first.wait_for()
    assert here.path()[-1] == [11, 11]


def test_what_is_no_image_is_refused_in_words_and_the_page_goes_on(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    page.set_input_files("#upload", {"name": "map.png", "mimeType": "image/png", "buffer": b"no"})
    page.locator("#notice p", has_text="image").wait_for()
    page.set_input_files("#upload", {"name": "map.png", "mimeType": "image/png", "buffer": _png()})
    page.locator("#map-name", has_text="map.png").wait_for()
    assert page.locator("#notice").is_hidden()
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
    page.wait_for_function(
        "before => document.getElementById('board').dataset.path !== before",
        arg=json.dumps(before, separators=(",", ":")),
    )
    assert [row, column] not in here.path()
    assert "before painting" in page.locator("#legend").inner_text()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function(
        "before => document.getElementById('board').dataset.path === before",
        arg=json.dumps(before, separators=(",", ":")),
    )


def test_a_narrow_screen_is_enough_and_fingers_draw(visit: Callable[..., Visit]) -> None:
    here = visit(**PHONE)
    page = here.open()
    for row, column in NEAR[1:]:
        page.touchscreen.tap(*here.cell(row, column))
    assert "complete" in page.locator("#route-said").inner_text()
    here.explain()
    assert here.answer().startswith("Valid.")
    assert _fits(page)
    for name in ("grid", "knapsack"):
        here.open(f"/?{name}#{name}")
        assert _fits(page)


def test_the_keyboard_alone_leads_from_the_start_to_an_answer(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
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
    assert here.answer().startswith(("Valid.", "Already valid."))
    # Whoever listens is taken to the answer.
    assert page.evaluate("document.activeElement.id") == "result-title"


def test_a_worker_that_is_killed_is_told_and_the_next_search_works(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    here.drag(*FAR)
    here.explain()
    os.kill(here.server.until(here.server.searching), signal.SIGKILL)
    page.locator("#notice p", has_text="worker process died").wait_for()
    page.get_by_role("button", name="Clear").click()
    here.drag(*NEAR)
    here.explain()
    assert here.answer().startswith("Valid.")


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
    page.wait_for_function(
        "before => document.getElementById('drawing').dataset.decision !== before", arg=decision
    )
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
    assert here.answer().startswith(("Valid.", "Proved infeasible."))
    assert "What is proved" in page.locator("#result .notes").inner_text() or (
        "impossible" in page.locator("#result .notes").inner_text()
    )
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
    here.explain()
    page.locator("#notice p", has_text="feasible").wait_for()
    page.get_by_label("or take the decision of").select_option(index=8)
    page.locator("#wanted-said", has_text="It would be worth").wait_for()
    here.explain()
    assert "item" in here.answer()
    assert page.locator("#result ul.items").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_and_all_controls_have_names(
    visit: Callable[..., Visit], scheme: str
) -> None:
    here = visit(color_scheme=scheme, reduced_motion="reduce")
    for path in ("/#terrain", "/?grid#grid", "/?knapsack#knapsack"):
        page = here.open(path)
        assert (page.evaluate(PAPER) < 60) == (scheme == "dark")
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
