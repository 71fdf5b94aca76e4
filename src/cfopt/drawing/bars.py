"""Decisions as bars, in SVG: of items their prices, else the values of the entries that differ."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from cfopt.drawing import elements as svg
from cfopt.drawing.panel import Panel

#: The height of a row, and how much of it a bar takes.
_HEIGHT, _THICK = 17, 11
#: The size of the font, as the page sets it, and the gap between a name or a price and the bars.
_FONT, _GAP = 11, 7
#: The width of a picture, and the most that names take of it.
_WIDTH, _NAMES = 340, 136
#: What prices take, whatever they are: in all pictures of a task bars are of the same scale.
_PRICES = svg.breadth(svg.signed("-8.88e+88"), _FONT) + _GAP


def draw_bars(panel: Panel) -> Markup:
    """A bar for each entry: its value to the foreground decision filled, to the other outlined."""
    other, columns = panel.beside, panel.columns
    filled, outlined = panel.strong.decision[columns], other.decision[columns]
    if panel.items:
        faint, ends = panel.prices[columns], (panel.low, panel.high)
        filled, outlined = (np.where(taken > 0.5, faint, 0.0) for taken in (filled, outlined))
    else:
        values = np.concatenate([panel.strong.decision, other.decision])
        faint, ends = np.zeros(len(columns)), (np.nanmin(values), np.nanmax(values))
    names = [panel.scene.names[j] for j in columns.tolist()]
    short = [svg.fitted(name, _FONT, _NAMES - _GAP) for name in names]
    left = max((svg.breadth(name, _FONT) for name in short), default=0.0) + _GAP
    scale = _Scale(left, *map(float, ends))
    largest = float(np.nanmax(np.abs(panel.prices), initial=0.0))
    parts = []
    for k, j in enumerate(columns.tolist()):
        y = _HEIGHT * k + 2
        parts.append(svg.text(left - _GAP, y + 9, short[k], "name", whole=names[k]))
        parts += [
            scale.bar(faint[k], y, "bar faint") if not filled[k] else "",
            scale.bar(filled[k], y, f"bar strong {panel.strong.role}"),
            scale.bar(outlined[k], y, f"bar weak {other.role}") if panel.weak else "",
        ]
        price = svg.signed(f"{svg.without_noise(float(panel.prices[j]), largest):.3g}")
        parts.append(svg.text(_WIDTH - _PRICES + _GAP, y + 9, price, "price"))
    height = _HEIGHT * max(len(columns), 1) + 4
    parts.append(svg.path(f"M{svg.number(scale.at(0))} 0V{height}", "axis"))
    return svg.picture(_WIDTH, height, panel.label, parts, "bars")


def shown_of(panel: Panel) -> str:
    """What a picture of bars shows of all entries, to stand below it."""
    shown, total, differ = len(panel.columns), len(panel.prices), len(panel.differing)
    if panel.items:
        which = "" if shown == total else f" ({shown} of {total})"
        return f"Bars and numbers: the cost or value of each item{which}."
    if not differ:
        return "The two do not differ."
    more = f", the {shown} most expensive of {differ}" if differ > shown else ""
    return f"Where the two differ{more}; on the right the price of each."


class _Scale:
    """Where a value lies between the names and the prices."""

    def __init__(self, left: float, low: float, high: float) -> None:
        self._left, self._low, high = left, min(0.0, low), max(0.0, high)
        room = _WIDTH - _PRICES - left
        self._unit = room / (high - self._low) if high > self._low else 0.0

    def at(self, value: float) -> float:
        return self._left + (value - self._low) * self._unit

    def bar(self, value: float, y: float, kind: str) -> str:
        if not np.isfinite(value) or value == 0:
            return ""
        left, right = sorted((self.at(0.0), self.at(value)))
        return svg.box(left, y, max(right - left, 0.5), _THICK, kind)
