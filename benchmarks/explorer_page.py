"""The explorer's page in a real browser: how soon it is seen, and how closely it follows.

`python -m benchmarks.explorer_page` prints the table.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from typing import Any

from tests.browsing import FAR, Visit, browsing, command_serving, find_browser

#: How often each is measured.
_LOADS, _MOVES, _QUESTIONS = 7, 40, 7
#: What must be shown: seconds until the first paint, until a decision and until a novice has an
#: answer; reports a second.
PAINT, DECISION, NOVICE, REPORTS = 1.0, 0.1, 1.0, 2.0

#: From a move of a slider to the frame that shows the new decision, in milliseconds.
_MOVE = """
fraction => new Promise(resolve => {
  const slider = document.querySelector('#features input[type=range]');
  const drawing = document.getElementById('drawing');
  const start = performance.now();
  new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
  }).observe(drawing, {attributes: true, attributeFilter: ['data-version']});
  slider.value = Number(slider.min) + fraction * (slider.max - slider.min);
  slider.dispatchEvent(new Event('input', {bubbles: true}));
})
"""
#: When the first content was painted, in milliseconds after the address was asked for.
_PAINT = """
() => new Promise(resolve => new PerformanceObserver(list => resolve(
  list.getEntriesByName('first-contentful-paint')[0].startTime
)).observe({type: 'paint', buffered: true}))
"""
#: From the button to the frame that shows what can be done instead, in milliseconds.
_ASK = """
() => new Promise(resolve => {
  const start = performance.now();
  new MutationObserver((_, watch) => {
    if (!document.querySelector('#result:not([hidden]) .offer')) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
  }).observe(document.getElementById('result'), {attributes: true, childList: true});
  document.querySelector('#map-ask .primary').click();
})
"""
#: When each report of a search arrives, in milliseconds, until it ends.
_WATCH = """
() => {
  const board = document.getElementById('board');
  window.reports = [];
  new MutationObserver(() => window.reports.push(performance.now()))
    .observe(board, {attributes: true, attributeFilter: ['data-reports']});
}
"""


def measure() -> list[dict[str, Any]]:
    """One row for each thing that must be shown."""
    browser = find_browser()
    if browser is None:
        return []
    with command_serving() as server, browsing(browser) as opened:
        paints = [_paint(Visit(opened, server)) for _ in range(_LOADS)]
        moves = _moves(Visit(opened, server))
        gaps = _gaps(Visit(opened, server))
        first = [_novice(Visit(opened, server)) for _ in range(_QUESTIONS)]
    return [
        row("first contentful paint", paints, PAINT),
        row("slider to new decision on the page", moves, DECISION),
        row("between two reports of a search", gaps, 1 / REPORTS),
        row("a novice's first question (A1, L1, L12) to a reason and an offer", first, NOVICE),
    ]


def row(name: str, values: list[float], limit: float) -> dict[str, Any]:
    """Seconds; a machine that does something else now and then may spoil one of twenty."""
    most = sorted(values)[int(0.95 * (len(values) - 1))]
    return {
        "what": name,
        "measured": len(values),
        "least [s]": round(min(values), 3),
        "median [s]": round(statistics.median(values), 3),
        "95% [s]": round(most, 3),
        "worst [s]": round(max(values), 3),
        "at most [s]": limit,
        "kept": "yes" if most <= limit else "no",
    }


def _paint(visit: Visit) -> float:
    page = visit.open()
    seconds = page.evaluate(_PAINT) / 1000
    visit.close()
    return float(seconds)


def _moves(visit: Visit) -> list[float]:
    page = visit.open("/#grid")
    # Back and forth, so that the decision changes as well as the costs.
    times = [page.evaluate(_MOVE, (0.37 * k) % 1) / 1000 for k in range(_MOVES)]
    visit.close()
    return times


def _gaps(visit: Visit) -> list[float]:
    """Times between the reports of a search on a map, as they reach the page."""
    page = visit.open()
    visit.drag(*FAR)
    page.evaluate(_WATCH)
    visit.explain()
    visit.answer()
    times = page.evaluate("window.reports")
    visit.close()
    return [(b - a) / 1000 for a, b in itertools.pairwise(times)]


def _novice(visit: Visit) -> float:
    """Seconds from the button to the answer, with an offer, for a route from corner to corner."""
    page = visit.open()
    for cell in ((0, 0), (0, 11), (11, 11)):
        page.mouse.click(*visit.cell(*cell))
    visit.settle()
    seconds = page.evaluate(_ASK) / 1000
    assert visit.answer().startswith("Proved infeasible.")
    visit.close()
    return float(seconds)


if __name__ == "__main__":
    rows = measure()
    if not rows:
        sys.exit("Nothing was measured: there is no chromium on the PATH.")
    for one in rows:
        print("  ".join(f"{name}: {value}" for name, value in one.items()))
