"""Make the pictures of README and guides with the code as it is: `make images`.

The report and the explorer are photographed in a Chromium, which must be on the PATH.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs import flights_pictures
from rich.console import Console
from tests.browsing import Visit, browsing, command_serving, find_browser

import cfopt
from cfopt.app import demo
from cfopt.web.requests import Ranges
from cfopt.web.served import shipped

IMAGES = Path(__file__).parent / "images"
#: The size of a window, in pixels; pictures are cut to what they show.
_WINDOW = {"width": 1180, "height": 900}
#: Along the lake, then straight across the forest: the bends of a route of cells (row, column).
_ROUTE = ((0, 0), (0, 4), (7, 11), (11, 11))


def naive(folder: Path) -> None:
    """A naive map beside a plausible one: a picture of `make demo`."""
    demo.run(folder, Console(quiet=True))
    (folder / "naive.png").replace(IMAGES / "naive.png")


def why() -> None:
    """A route before and after, in one of the pipelines of the explorer."""
    served = dict(shipped(pixels=0))["grid"]()
    x0, reference = served.contexts[3:4], served.contexts[8:9]
    wanted = served.pipeline.decide(reference)
    e = cfopt.explain(
        x0, served.pipeline, cfopt.Absolute(wanted), features=served.view.limited(Ranges())
    )
    e.plot(IMAGES / "why.png")


def report(browser: Any, folder: Path) -> None:
    """The report of the example that `cfopt init` writes, with one of its tasks open."""
    for command in (["init", "deliveries"], ["explain", "deliveries/CONFIG.toml"]):
        subprocess.run([sys.executable, "-m", "cfopt", *command], cwd=folder, check=True)
    page = browser.new_page(viewport={"width": 1040, "height": 900})
    page.goto((folder / "deliveries" / "results" / "report.html").as_uri())
    page.locator(".task", has_text="Sat").locator("summary").click()
    _save(page, "section[aria-labelledby=tasks]", "report.png")
    page.close()


def explorer_map(visit: Visit) -> None:
    """The answer to a drawn route, plausible beside naive."""
    page = visit.open()
    visit.drag(*_ROUTE)
    page.locator("#map-ask label.check", has_text="naive").click()
    visit.explain()
    visit.answer()
    _save(page, "#result", "explorer-map.png")
    visit.close()


def explorer_table(visit: Visit) -> None:
    """A day's conditions, two of them locked, and another route that was chosen."""
    page = visit.open("/#grid")
    page.locator("#row").select_option(index=3)
    visit.settle()
    for name in ("roadworks", "deliveries"):
        page.get_by_role("checkbox", name=f"Lock {name}").check(force=True)
    surface = page.locator("#drawing .surface")
    box = surface.bounding_box()
    # The place W, in the middle of the lowest row.
    surface.click(position={"x": 0.5 * box["width"], "y": 0.93 * box["height"]})
    visit.settle()
    page.screenshot(path=IMAGES / "explorer-table.png", full_page=True)
    visit.close()


def _save(page: Any, selector: str, name: str) -> None:
    """Save one element of a page, as wide as the window, with a margin above and below."""
    page.evaluate("scrollTo(0, 0)")
    box, margin = page.locator(selector).bounding_box(), 24
    clip = {
        "x": 0,
        "y": box["y"] - margin,
        "width": page.viewport_size["width"],
        "height": box["height"] + 2 * margin,
    }
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)


def main() -> None:
    """Make all of them."""
    path = find_browser()
    if path is None:
        sys.exit("The pictures need a Chromium on the PATH; got none. Install it and try again.")
    why()
    flights_pictures.draw(IMAGES)
    with tempfile.TemporaryDirectory() as name, browsing(path) as browser:
        report(browser, Path(name))
        with command_serving() as server:
            for photograph in (explorer_map, explorer_table):
                photograph(Visit(browser, server, viewport=_WINDOW))
        naive(Path(name) / "demo")


if __name__ == "__main__":
    main()
