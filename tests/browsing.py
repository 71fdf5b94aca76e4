"""The explorer as its users meet it: `cfopt serve` as a process, and a real browser."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.patient import PATIENCE, launched

#: A moment by the page's own clock, which a busy machine holds up as it does the page.
_MOMENT = "() => new Promise((over) => setTimeout(over, 100))"
_LATER = "() => { const t = performance.now; performance.now = () => t.call(performance) + 1000; }"
#: No windows, and no calls home.
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
#: A way that is nearly as good as the best of the first map: soon explained.
NEAR = ((0, 0), (6, 6), (11, 11))
#: A way through lake and forest, for which a search shows where it is; its corner is cut, since a
#: sharp one is refused without a search.
FAR = ((0, 0), (0, 10), (1, 11), (11, 11))


def find_browser() -> str | None:
    """The path of a Chromium, or None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


#: Marks of all tests in a browser.
BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no chromium was found"),
]


class Server:
    """A running `cfopt serve`.

    Arguments:
        url: its address.
        held: the file that holds its searches.
    """

    def __init__(self, url: str, held: Path) -> None:
        self.url, self._held = url, held

    def get(self, path: str) -> Any:
        """The JSON of an address."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def ready(self) -> bool:
        """Whether all workers have loaded."""
        try:
            return bool(self.get("/api/health")["status"] == "ok")
        except OSError:  # not listening yet
            return False

    def searching(self) -> int | None:
        """The process id of a worker that searches."""
        workers = self.get("/api/health")["workers"]
        busy = (w["pid"] for w in workers if w["role"] == "search" and w["state"] == "busy")
        return next(busy, None)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Searches in images go on at most to the first place that they show, until the end."""
        self._held.touch()
        try:
            yield
        finally:
            self._held.unlink()

    def until(self, there: Any) -> Any:
        """Wait until something is there, and return it."""
        end = time.monotonic() + PATIENCE
        while not (found := there()):
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.05)
        return found


@contextmanager
def command_serving(*options: str) -> Iterator[Server]:
    """`cfopt serve` on a free port, until the block ends.

    Arguments:
        options: more words of the command.
    """
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "held"
        with launched(*options, held=str(held)) as (url, process):
            server = Server(url, held)
            server.until(lambda: process.poll() is not None or server.ready())
            assert process.poll() is None, "cfopt serve ended"
            yield server


@contextmanager
def browsing(path: str) -> Iterator[Any]:
    """A browser without a window, until the block ends.

    Arguments:
        path: of a Chromium.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One page in a window of its own, with what its console complained about.

    Arguments:
        browser: in which it is opened.
        server: whose page it is.
        settings: of the window, such as its size.
    """

    def __init__(self, browser: Any, server: Server, **settings: Any) -> None:
        window = {"viewport": {"width": 1280, "height": 900}} | settings
        self.window = browser.new_context(**window)
        self.window.set_default_timeout(1000 * PATIENCE)
        self.page = self.window.new_page()
        self.server = server
        #: Errors and warnings, among them scripts that the policy kept from running.
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        #: Requests that the page has made, and those that were answered.
        self.asked = self.answered = 0
        self.page.on("request", lambda _: setattr(self, "asked", self.asked + 1))
        for end in ("requestfinished", "requestfailed"):
            self.page.on(end, lambda _: setattr(self, "answered", self.answered + 1))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: Any) -> None:
        # The browser logs every refusal of the server; that is what some tests are about.
        refused = message.text.startswith("Failed to load resource") and "/api/" in str(
            message.location
        )
        if message.type in ("error", "warning") and not refused:
            self.complaints.append(message.text)

    def open(self, path: str = "/") -> Any:
        """Open the page, and wait until it shows a decision."""
        self.page.goto(self.server.url + path)
        self.page.locator("#legend div, #table-legend div").first.wait_for()
        return self.page

    def until(self, said: str, given: Any = None) -> None:
        """Wait until a script says yes.

        Playwright's own way evaluates text within the page, which the page's policy forbids.
        """
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(said, given):
            assert time.monotonic() < end, f"it did not happen: {said}"
            self.page.wait_for_timeout(50)

    def settle(self) -> None:
        """Wait until the page asks for nothing more: each answer may let it ask once again."""
        end, before = time.monotonic() + PATIENCE, -1
        while (self.asked, self.answered) != (before, before):
            assert time.monotonic() < end, "the page does not come to rest"
            before = self.asked
            self.page.evaluate(_MOMENT)

    def later(self) -> None:
        """Let a second pass by the page's own clock: what follows is a change of its own."""
        self.page.evaluate(_LATER)

    def close(self) -> None:
        """Close the window; nothing may have gone wrong in it unseen."""
        self.window.close()
        assert self.complaints == []

    # Maps

    def cell(self, row: int, column: int) -> tuple[float, float]:
        """Where the middle of a cell is on the screen."""
        surface = self.page.locator("#board .surface")
        surface.scroll_into_view_if_needed()
        box = surface.bounding_box()
        return (
            box["x"] + (column + 0.5) * box["width"] / 12,
            box["y"] + (row + 0.5) * box["height"] / 12,
        )

    def drag(self, *cells: tuple[int, int]) -> None:
        """Draw or paint with the mouse held down."""
        self.page.mouse.move(*self.cell(*cells[0]))
        self.page.mouse.down()
        for cell in cells[1:]:
            self.page.mouse.move(*self.cell(*cell), steps=5)
        self.page.mouse.up()

    def path(self) -> list[list[int]]:
        """The route that is decided on the map shown."""
        return json.loads(self.page.locator("#board").get_attribute("data-path"))

    def choose(self, name: str, value: str) -> None:
        """Pick one of several choices; the browser hides their buttons behind pictures."""
        self.page.locator(f"input[name={name}][value={value}]").check(force=True)

    def wish_for_row(self, index: int) -> None:
        """Ask about the decision of another row of a table."""
        self.page.get_by_label("or take the decision of").select_option(index=index)

    def cancel(self) -> None:
        """Cancel the search, and wait until the page says so."""
        self.page.get_by_role("button", name="Cancel").click()
        self.page.get_by_text("The search was cancelled").wait_for()

    def explain(self) -> None:
        """Press the button, once it can be pressed."""
        self.page.locator(".ask:visible .primary:not([aria-disabled=true])").click()

    def answer(self) -> str:
        """The verdict of the answer, once it is there."""
        return str(self.page.locator("#result:not([hidden]) .answer").inner_text())
