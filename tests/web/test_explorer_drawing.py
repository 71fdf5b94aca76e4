"""The explorer's workbench: what fits the window, what is drawn, brought along, and kept."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.browsing import BROWSER, FAR, NEAR, Visit

pytestmark = BROWSER
#: Where something ends on the screen, and how far the page is scrolled.
BOTTOM = "name => document.querySelector(name).getBoundingClientRect().bottom + scrollY"
TOP = "document.querySelector('#board').getBoundingClientRect().top + scrollY"


def test_nothing_but_two_styles_is_waited_for_before_the_first_paint(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    blocking = (
        "performance.getEntriesByType('resource')"
        ".filter(one => one.renderBlockingStatus === 'blocking').map(one => one.name)"
    )
    static = f"{here.server.url}/static"
    assert set(page.evaluate(blocking)) == {f"{static}/pictures.css", f"{static}/style.css"}


@pytest.mark.parametrize(
    ("width", "height"),
    [
        (1280, 720),
        pytest.param(1366, 768, marks=pytest.mark.long),
        pytest.param(1440, 900, marks=pytest.mark.long),
    ],
)
def test_the_whole_workbench_fits_the_windows_of_laptops(
    visit: Callable[..., Visit], width: int, height: int
) -> None:
    here = visit(viewport={"width": width, "height": height})
    page = here.open()
    for part in ("#board", "#legend", "#map-ask .primary"):
        assert page.evaluate(BOTTOM, part) <= height, part
    # Also with the most that is said of a route.
    for cell in ((0, 0), (0, 11), (11, 11)):
        page.mouse.click(*here.cell(*cell))
    assert page.locator("#detour").is_visible()
    assert page.evaluate(BOTTOM, "#map-ask .primary") <= height
    before = page.evaluate(TOP)
    here.choose("tool", "paint")
    assert page.evaluate(BOTTOM, "#palette") <= height
    assert page.evaluate(TOP) == before
    page.evaluate("document.querySelector('#notice').hidden = false")
    assert page.evaluate(TOP) == before
    covered = page.locator("#notice").bounding_box()
    assert covered["y"] + covered["height"] <= before
    page = here.open("/?grid#grid")
    assert page.evaluate(BOTTOM, "#table-ask .primary") <= height


def test_all_pipelines_are_seen_on_a_phone_and_all_choices_in_forced_colours(
    visit: Callable[..., Visit],
) -> None:
    here = visit(viewport={"width": 390, "height": 844}, forced_colors="active")
    page = here.open()
    for link in page.locator("#pipelines a").all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    marked = "name => getComputedStyle(document.querySelector(name)).outlineStyle"
    for part in (".segments :checked + span", ".thumb :checked + i", "#pipelines [aria-current]"):
        assert page.evaluate(marked, part) == "solid"


def test_a_corner_that_can_be_cut_is_said_and_straightened_with_one_click(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    for cell in ((0, 0), (0, 11), (11, 11)):
        page.mouse.click(*here.cell(*cell))
    assert "23 cells to L12" in page.locator("#route-said").inner_text()
    assert page.locator("#detour-said").inner_text().startswith("Corner L1 can be cut")
    # Who asks all the same learns why not, and is offered the same.
    here.explain()
    assert here.answer().startswith("Proved infeasible.")
    assert "It does without L1" in page.locator("#result .notes").inner_text()
    offer = page.locator("#result .offer")
    assert offer.locator("p").inner_text().startswith("Corner L1 can be cut")
    with here.server.holding():
        offer.get_by_role("button", name="Straighten it, and ask again").click()
        assert "22 cells to L12" in page.locator("#route-said").inner_text()
        here.cancel()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Straighten it", exact=True).click()
    assert "22 cells to L12" in page.locator("#route-said").inner_text()
    assert page.locator("#detour").is_hidden()
    page.keyboard.press("Control+z")
    assert page.locator("#detour").is_visible()
    # A hand that goes by steps right and down means the diagonal.
    page.get_by_role("button", name="Clear").click()
    here.drag((0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (11, 11))
    assert "12 cells to L12, complete" in page.locator("#route-said").inner_text()
    assert page.locator("#detour").is_hidden()


def test_a_search_ends_in_time_and_can_be_asked_to_go_on_for_longer(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    asked: list[dict[str, Any]] = []
    shorter = {"time_limit": 1e-9}  # than any search

    def shortly(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.continue_(post_data=json.dumps(asked[-1] | shorter))

    def described(route: Any) -> None:
        answer = route.fetch()
        assert answer.json()["time_limit"] == 60
        route.fulfill(response=answer, json=answer.json() | shorter)

    here.page.route("**/api/explain", shortly)
    here.page.route("**/api/pipelines/terrain", described)
    page = here.open()
    here.drag(*FAR)
    here.explain()
    assert here.answer().startswith("Best effort.")
    offer = page.locator("#result .offer")
    assert offer.locator("p").inner_text().startswith("Nothing was found in 1e\u22129 seconds.")
    offer.get_by_role("button", name="Search for up to 110 seconds").click()
    here.until("() => !document.querySelector('#result .offer')")
    assert here.answer().startswith("Best effort.")
    assert [one.get("time_limit") for one in asked] == [None, 110]


def _chess_board(width: int, height: int) -> Any:
    """Pixels in white and magenta: no land looks like it."""
    fields = np.indices((height, width)).sum(0) // (height // 4) % 2
    return np.where(fields[..., None], [255, 0, 255], [255, 255, 255])


def _file(pixels: Any, kind: str) -> dict[str, Any]:
    data = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(data, kind)
    name = f"land.{kind}"
    return {"name": name, "mimeType": f"image/{kind}", "buffer": data.getvalue()}


def _sent(request: Any) -> Any:
    """The image that a page has asked about."""
    data = base64.b64decode(request.value.post_data_json["context"]["image"])
    return Image.open(io.BytesIO(data))


def test_images_of_any_size_and_shape_are_cut_shrunk_and_warned_about(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    # More pixels than the server takes, in a format that it does not read.
    page.set_input_files("#upload", _file(_chess_board(3000, 2000), "webp"))
    page.locator("#crop[open]").wait_for()
    page.locator("#crop-at").focus()
    page.keyboard.press("Home")
    with page.expect_request("**/api/decide") as sent:
        page.get_by_role("button", name="Use this part").click()
    with _sent(sent) as seen:
        assert seen.size == (1024, 1024)
        assert seen.format == "PNG"
        # The left part, where the board begins with white; in the middle it is magenta.
        assert seen.convert("RGB").getpixel((9, 9))[1] > 200
    page.locator("#map-name", has_text="land.webp").wait_for()
    page.locator("#notice", has_text="does not look like").wait_for()
    # Given up, nothing changes; a square needs no cutting, and a map no warning.
    page.set_input_files("#upload", _file(_chess_board(300, 200), "png"))
    page.get_by_role("button", name="Cancel").click()
    here.settle()
    assert page.locator("#map-name").inner_text() == "land.webp"
    assert "does not look like" in page.locator("#notice").inner_text()
    stored = page.request.get(f"{here.server.url}/api/pipelines/terrain/contexts/70").json()
    own = {"name": "own.png", "mimeType": "image/png"}
    data = base64.b64decode(stored["image"].partition(",")[2])
    page.set_input_files("#upload", own | {"buffer": data})
    page.locator("#map-name", has_text="own.png").wait_for()
    assert page.locator("#notice").is_hidden()
    assert here.path() == stored["path"]
    # Noise, which no format makes small without loss, is sent with some: it still is what it was.
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3))
    with page.expect_request("**/api/decide") as sent:
        page.set_input_files("#upload", _file(noise, "png"))
    with _sent(sent) as seen:
        assert (seen.format, seen.size) == ("JPEG", (800, 800))
        assert np.corrcoef(np.asarray(seen).ravel(), noise.ravel())[0, 1] > 0.5
    page.locator("#map-name", has_text="land.png").wait_for()


@pytest.mark.long
def test_what_is_open_and_painted_survives_a_reload(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open("/#terrain?row=3")
    page.locator("#map-name", has_text="Map 4").wait_for()
    here.choose("tool", "paint")
    here.choose("terrain", "rock")
    here.drag((5, 5), (5, 8))
    here.choose("tool", "draw")
    here.drag(*NEAR)
    here.choose("kind-map-ask", "relative")
    here.settle()
    here.until("location.hash.includes('kind=relative') && location.hash.includes('paint=')")
    path, said = here.path(), page.locator("#route-said").inner_text()
    here.open(page.url.removeprefix(here.server.url) + "&again")
    here.until("document.getElementById('map-name').textContent === 'Map 4, painted'")
    here.settle()
    assert here.path() == path
    assert page.locator("#route-said").inner_text() == said
    assert page.locator("input[name=kind-map-ask]:checked").input_value() == "relative"
    # An image of one's own has no row: it is in the address itself.
    stored = page.request.get(f"{here.server.url}/api/pipelines/terrain/contexts/70").json()
    image = {"name": "own.png", "mimeType": "image/png"}
    data = base64.b64decode(stored["image"].partition(",")[2])
    page.set_input_files("#upload", image | {"buffer": data})
    here.until("location.hash.includes('image=')")
    here.open(page.url.removeprefix(here.server.url) + "&again")
    assert here.path() == stored["path"]


def test_a_link_carries_its_question_and_answers_to_another_one_are_marked(
    visit: Callable[..., Visit],
) -> None:
    here = visit(permissions=["clipboard-read", "clipboard-write"])
    page = here.open("/#grid?row=2")
    page.get_by_label("rain, exactly").fill("1.5")
    here.wish_for_row(8)
    page.locator("#wanted-said", has_text="It would cost").wait_for()
    here.explain()
    answer = here.answer()
    here.until("location.pathname.startsWith('/t/')")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    # The answer of a link that this server does not know is asked for again.
    lost = re.sub("/t/[^#]+", "/t/unknown", copied.removeprefix(here.server.url))
    other = visit()
    other.open(lost)
    assert other.answer() == answer
    assert other.page.locator("#row option:checked").inner_text() == "Day 3"
    # Another context has another answer.
    box = page.get_by_label("rain, exactly")
    here.later()
    box.fill("1.6")
    page.locator("#result .old").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+z")
    here.until("!document.querySelector('#result .old')")
    assert box.input_value() == "1.5"
    box.fill("7")
    page.locator(".why", has_text="but this pipeline knows only").wait_for()
    box.fill("1.5")
    page.get_by_role("button", name="fog in an answer").click()
    page.get_by_label("fog at least").fill("2")
    page.get_by_label("fog at most").fill("1")
    page.locator(".why", has_text="The range of fog is reversed").wait_for()
