"""Decisions of any problem as bars: for the items of a knapsack their values, else the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from cfopt.problems import Knapsack
from cfopt.report import svg
from cfopt.report.naming import column_name
from cfopt.report.scene import Panel
from cfopt.types import Array, Indices

#: The largest number of bars, their height, the room for names, and that for bars.
_BARS, _HEIGHT, _NAMES, _ROOM = 24, 17, 96, 190
#: How much of a row's height its bar takes.
_THICK = 11


def draw_columns(problem: Any, panel: Panel) -> Markup:
    """A bar for each column: its value to the foreground decision filled, to the other outlined."""
    other = panel.weak[0] if panel.weak else panel.strong
    if isinstance(problem, Knapsack):
        columns = _items(panel.strong.decision, other.decision)
        lengths = panel.prices[columns]
        filled = np.where(panel.strong.decision[columns] > 0.5, lengths, 0.0)
        outlined = np.where(other.decision[columns] > 0.5, lengths, 0.0)
        faint, ends = lengths, (panel.low, panel.high)
    else:
        columns = _differing(panel.prices, panel.strong.decision, other.decision)
        filled, outlined = panel.strong.decision[columns], other.decision[columns]
        values = np.concatenate([panel.strong.decision, other.decision])
        faint, ends = np.zeros(len(columns)), (np.nanmin(values), np.nanmax(values))
    scale = _Scale(*map(float, ends))
    parts = []
    for k, j in enumerate(columns.tolist()):
        y = _HEIGHT * k + 2
        parts.append(svg.text(_NAMES - 8, y + 9, column_name(problem, j), "name"))
        parts += [
            scale.bar(faint[k], y, "bar faint") if not filled[k] else "",
            scale.bar(filled[k], y, f"bar strong {panel.strong.role}"),
            scale.bar(outlined[k], y, f"bar weak {other.role}") if panel.weak else "",
        ]
        price = svg.signed(f"{panel.prices[j]:.3g}")
        parts.append(svg.text(_NAMES + _ROOM + 6, y + 9, price, "price"))
    height = _HEIGHT * max(len(columns), 1) + 4
    parts.append(svg.path(f"M{svg.number(scale.at(0))} 0V{height}", "axis"))
    return svg.picture(_NAMES + _ROOM + 48, height, panel.label, parts, "bars")


def shown_of(problem: Any, panel: Panel) -> str:
    """What of the columns a picture of bars shows, to stand below it."""
    other = panel.weak[0] if panel.weak else panel.strong
    total = len(panel.prices)
    if isinstance(problem, Knapsack):
        shown = len(_items(panel.strong.decision, other.decision))
        which = "" if shown == total else f" ({shown} of {total})"
        return f"Bars and numbers: the value of each item{which}."
    differ = int((np.abs(panel.strong.decision - other.decision) > 1e-9).sum())
    shown = len(_differing(panel.prices, panel.strong.decision, other.decision))
    if not differ:
        return "The two do not differ."
    more = f", the {shown} dearest of {differ}" if differ > shown else ""
    return f"Where the two differ{more}; on the right the price of each."


class _Scale:
    """Where a value lies between the names and the prices."""

    def __init__(self, low: float, high: float) -> None:
        self._low, high = min(0.0, low), max(0.0, high)
        self._unit = _ROOM / (high - self._low) if high > self._low else 0.0

    def at(self, value: float) -> float:
        return _NAMES + (value - self._low) * self._unit

    def bar(self, value: float, y: float, kind: str) -> str:
        if not np.isfinite(value) or value == 0:
            return ""
        left, right = sorted((self.at(0.0), self.at(value)))
        return svg.box(left, y, max(right - left, 0.5), _THICK, kind)


def _items(strong: Array, weak: Array) -> Indices:
    """Which items are shown: those that either set packs first, in their own order."""
    packed = (strong > 0.5) | (weak > 0.5)
    order = np.argsort(~packed, kind="stable")[:_BARS]
    return np.sort(order)


def _differing(prices: Array, strong: Array, weak: Array) -> Indices:
    """The columns in which two decisions differ, the dearest first."""
    differ = np.flatnonzero(np.abs(strong - weak) > 1e-9)
    order: Indices = differ[np.argsort(-np.abs(prices[differ]), kind="stable")][: _BARS // 2]
    return order
