"""Searches of the explorer as the page lives through them, and the links to their answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.browsing import BROWSER, FAR, NEAR, Visit
from tests.legible import FAINT

pytestmark = BROWSER


def test_a_search_can_be_watched_and_cancelled(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    here.drag(*FAR)
    before = page.evaluate("document.querySelector('#board canvas').toDataURL()")
    with here.server.holding():
        here.explain()
        # It is the map itself that changes while the search runs.
        here.until(
            "before => document.querySelector('#board canvas').toDataURL() !== before", before
        )
        here.cancel()
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
    with here.server.holding():
        here.explain()
        here.server.until(here.server.searching)
        page.locator("#pipelines a[href$=knapsack]").click()
        page.locator("#table-legend div").first.wait_for()
        here.server.until(lambda: here.server.searching() is None)
    assert page.locator("#result").is_hidden()
    page.go_back()
    page.locator("#legend div").first.wait_for()
    assert here.path()[-1] == [11, 11]


@pytest.mark.long
def test_a_worker_that_is_killed_is_told_and_the_next_search_works(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    here.drag(*FAR)
    with here.server.holding():
        here.explain()
        os.kill(here.server.until(here.server.searching), signal.SIGKILL)
        page.locator("#notice p", has_text="worker process died").wait_for()
    page.get_by_role("button", name="Clear").click()
    here.drag(*NEAR)
    here.explain()
    assert here.answer().startswith("Valid.")


@pytest.mark.long
def test_a_stream_that_is_refused_does_not_hang_the_page(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    refusals: list[str] = []

    def refuse(route: Any) -> None:
        refusals.append(route.request.url)
        route.fulfill(status=503, json={"detail": "Not now."})

    page.route("**/events", refuse)
    here.drag(*FAR)
    here.explain()
    assert here.answer()
    assert refusals


@pytest.mark.long
def test_a_page_that_is_loaded_again_joins_its_search(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    here.drag(*FAR)
    with here.server.holding():
        here.explain()
        page.wait_for_url("**/t/*")
        page.reload()
        page.locator(".progress:visible", has_text="Searching").wait_for()
        # It is still its own: leaving it gives it up.
        page.locator("#pipelines a[href$=knapsack]").click()
        here.server.until(lambda: here.server.searching() is None)


@pytest.mark.long
def test_a_spectator_who_leaves_does_not_cancel_the_search(visit: Callable[..., Visit]) -> None:
    here, other = visit(), visit()
    page = here.open()
    here.drag(*FAR)
    with here.server.holding():
        here.explain()
        page.wait_for_url("**/t/*")
        other.open(page.url.removeprefix(other.server.url))
        other.page.locator(".progress:visible", has_text="Searching").wait_for()
        other.page.locator("#pipelines a[href$=grid]").click()
        other.page.locator("#table-legend div").first.wait_for()
        # The page that it went to can be used meanwhile.
        assert not other.page.locator("#table-ask form").evaluate("form => form.inert")
    assert here.answer()


@pytest.mark.long
def test_a_cancelled_search_leaves_the_answer_before_it_and_what_is_drawn(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    here.drag(*NEAR)
    here.explain()
    answer = here.answer()
    page.get_by_role("button", name="Clear").click()
    here.drag(*FAR)
    with here.server.holding():
        here.explain()
        page.locator(".progress:visible", has_text="Searching").wait_for()
        page.wait_for_url("**/t/*")
        here.cancel()
    assert here.answer() == answer
    # The address is that of the route drawn since, not of the answer, which is marked as old.
    page.wait_for_url("**/#terrain?*K1-L2-L3-*-L12&kind=absolute")
    assert page.locator("#result .old").is_visible()


@pytest.mark.long
def test_one_goes_on_from_the_exact_answer_and_back_to_it(visit: Callable[..., Visit]) -> None:
    here = visit()
    page = here.open()
    here.drag(*NEAR)
    here.explain()
    answer, address = here.answer(), page.url
    task = here.server.get(f"/api/tasks/{address.rpartition('/')[2]}")
    page.get_by_role("button", name="Continue").click()
    page.locator("#map-name", has_text="Map 1, changed").wait_for()
    assert here.path() == task["result"]["after"]["path"]
    page.get_by_text("clearly wrong?").click()
    with here.server.holding():
        with page.expect_request("**/api/explain") as asked:
            here.explain()
        assert asked.value.post_data_json["context"] == {"task": task["id"]}
        page.wait_for_url("**/t/*")
        here.cancel()
    page.go_back()
    assert here.answer() == answer
    assert page.url == address


def test_a_link_restores_the_question_its_locks_and_its_context(
    visit: Callable[..., Visit],
) -> None:
    here, other = visit(), visit()
    page = here.open("/#grid")
    here.wish_for_row(3)
    page.locator("#wanted-said", has_text="It would cost").wait_for()
    wanted = page.locator("#wanted-said").inner_text()
    page.get_by_label("rain, exactly").fill("1.25")
    page.get_by_role("checkbox", name="Lock rain").check(force=True)
    page.get_by_role("button", name="fog in an answer").click()
    page.get_by_label("fog at most").fill("2.5")
    here.explain()
    page.wait_for_url("**/t/*")
    here.answer()
    wanted = page.locator("#wanted-said").inner_text()
    seen = other.open(page.url.removeprefix(other.server.url))
    other.answer()
    assert seen.locator("#wanted-said").inner_text() == wanted
    assert seen.get_by_role("checkbox", name="Lock rain").is_checked()
    assert seen.get_by_label("fog at most").input_value() == "2.5"
    # It is none of the stored ones, and not said to be.
    assert seen.locator("#row option:checked").inner_text() == "the link"
    seen.get_by_label("rain, exactly").fill("0.5")
    seen.get_by_role("button", name="Back to that of the link").click()
    assert seen.get_by_label("rain, exactly").input_value() == "1.25"
    page.get_by_text("clearly wrong?").click()
    page.locator("#table-ask").get_by_label("At least this much off").fill("15")
    here.explain()
    here.until("old => location.href !== old", seen.url)
    here.answer()
    seen = other.open(page.url.removeprefix(other.server.url))
    other.answer()
    far = seen.locator("#table-ask").get_by_label("At least this much off")
    assert far.input_value() == "15"


def test_a_server_that_is_gone_is_told_and_can_be_tried_again(
    visit: Callable[..., Visit],
) -> None:
    here = visit()
    page = here.open()
    page.route("**/api/pipelines/grid", lambda route: route.abort())
    page.locator("#pipelines a[href$=grid]").click()
    page.locator("#notice p", has_text="does not respond").wait_for()
    assert page.locator("#map-view").is_hidden()
    assert page.evaluate(FAINT) == []
    page.unroute("**/api/pipelines/grid")
    page.get_by_role("button", name="Try again").click()
    page.locator("#table-legend div").first.wait_for()
    assert page.locator("#notice").is_hidden()
