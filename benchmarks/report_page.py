"""A report of 1,000 rows in a real browser: how soon it is there, and how soon it is sorted.

`python -m benchmarks.report_page` prints the table, and ends with code 1 if a limit is not kept.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tests.browsing import browsing, find_browser

import cfopt
from benchmarks.explorer_page import row
from cfopt.problems import GridShortestPath
from cfopt.report import write_report

ROWS = 1000
#: How often each is measured, and what must be kept, in seconds.
_TIMES = 7
LOAD, SORT = 1.0, 0.3
#: From the address to the frame after everything is there, in milliseconds.
_LOADED = """
() => new Promise(resolve => requestAnimationFrame(
  () => setTimeout(() => resolve(performance.now()))
))
"""
#: From a click on a column to the frame that shows the new order, in milliseconds.
_SORTED = """
name => new Promise(resolve => {
  const start = performance.now();
  document.querySelector(`[data-sort="${name}"]`).click();
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
})
"""


def measure() -> list[dict[str, Any]]:
    """One row for each limit; empty where there is no browser."""
    browser = find_browser()
    if browser is None:
        return []
    with tempfile.TemporaryDirectory() as folder, browsing(browser) as opened:
        path = Path(folder) / "report.html"
        write_report(_explanation(), path, title="Grid", seconds=1.0, settings={})
        loads, sorts = [], []
        for _ in range(_TIMES):
            page = opened.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            loads.append(page.evaluate(_LOADED) / 1000)
            names = ("distance", "distance", "rank", "number")
            sorts += [page.evaluate(_SORTED, name) / 1000 for name in names]
            page.close()
    return [
        row(f"report of {ROWS:,} rows, until all of it is there", loads, LOAD),
        row("the same, from a click on a column to its new order", sorts, SORT),
    ]


def _explanation() -> cfopt.Explanation:
    """Absolute questions on the 5x5 grid."""
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(10, 40, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn((40, 10), generator=generator, dtype=torch.float64))
        layer.bias.fill_(5.0)
    pipeline = cfopt.Pipeline(layer, GridShortestPath(5, 5))
    x0 = torch.randn((ROWS, 10), generator=generator, dtype=torch.float64)
    return cfopt.explain(x0, pipeline, cfopt.Absolute(pipeline.decide(x0.roll(1, 0))))


if __name__ == "__main__":
    rows = measure()
    if not rows:
        sys.exit("Nothing was measured: there is no chromium on the PATH.")
    for one in rows:
        print("  ".join(f"{name}: {value}" for name, value in one.items()))
    sys.exit(any(one["kept"] == "no" for one in rows))
