"""The picture of one explanation: decision and costs before and after, and what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from cfopt.drawing.mpl import COSTS, INK, QUIET, chart, draw
from cfopt.drawing.palette import LIGHT
from cfopt.drawing.panel import Panel, has_maps, marks, price_range, prices, scene_of
from cfopt.exact.certificate import Clash
from cfopt.plots.common import (
    SHOWN,
    finish,
    obstacle_title,
    obstacles,
    other_name,
    reasons,
    refuse_rejected,
    value_verb,
    verdict,
)
from cfopt.plots.map_explanation import draw_map_explanation
from cfopt.plots.panel import Panel as PanelAxes
from cfopt.plots.style import ALTERNATIVE, BAR, FACTUAL, row_of_panels
from cfopt.result.explanation import Explanation
from cfopt.result.wording import question


def plot_explanation(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw an explanation of one row, and save it if a path is given (PNG, SVG or PDF)."""
    refuse_rejected(explanation)
    drawn = draw_map_explanation if has_maps(explanation) else _draw_features
    return finish(drawn(explanation), path)


def _draw_features(e: Explanation) -> Figure:
    """For contexts of features: each decision before and after, and bars for what changed."""
    figure = row_of_panels(12, 4.9, rect=(0.01, 0.08, 0.98, 0.79))
    left, right, changes = figure.subplots(
        1, 3, width_ratios=[1, 1, 0.9], subplot_kw={"axes_class": PanelAxes}
    )
    figure.text(
        0.015, 0.955, question(e.criterion, e.margin), fontsize=14, fontweight="bold", color=INK
    )
    figure.text(0.015, 0.93, fill(verdict(e), 150), va="top", fontsize=10, color=INK)

    before, after = prices(e, "costs_before"), prices(e, "costs")
    factual, other = marks(e)
    first = Panel(scene_of(e), before, factual, (other,), *price_range([before, after]))
    _panel(e, left, "Before", first)
    handles = [
        Line2D([], [], color=FACTUAL, linewidth=4, label="the decision"),
        Line2D([], [], color=ALTERNATIVE, linewidth=4, label=other_name(e)),
    ]
    clash = e.clash[0]
    if clash is not None:
        handles += _obstacles(right, clash, first)
        reasons(changes, clash)
    else:
        front, back = (other, factual) if e.answered[0] else (factual, other)
        _panel(e, right, "After", replace(first, prices=after, strong=front, weak=(back,)))
        _changes(e, figure, changes)
    if first.scene.has_places:
        handles.append(
            Line2D([], [], color=COSTS(0.6), linewidth=9, label="costs: darker is more expensive")
        )
    figure.legend(handles=handles, loc="lower left", ncols=5, frameon=False, fontsize=9.5)
    return figure


def _panel(e: Explanation, axes: Axes, title: str, panel: Panel) -> None:
    draw(axes, panel)
    value = {line.role: panel.prices @ line.decision for line in panel.lines}
    axes.set_title(
        f"{title}: the decision {value_verb(e)} {value['factual']:.3g},\n"
        f"{other_name(e)} {value_verb(e)} {value['other']:.3g}",
        fontsize=10,
        color=INK,
        y=1.0,
    )


def _obstacles(axes: Axes, clash: Clash, panel: Panel) -> list[Line2D]:
    """The first two decisions that the alternative cannot beat at once."""
    found = obstacles(clash)
    strong, weak = (*found, *panel.weak, panel.strong)[:2]
    draw(axes, replace(panel, strong=strong, weak=(weak,)))
    axes.set_title(obstacle_title(len(clash.decisions)), fontsize=10, color=INK, y=1.0)
    letters = zip("AB", found, strict=False)
    return [
        Line2D([], [], color=LIGHT[line.role], linewidth=4, label=name) for name, line in letters
    ]


def _changes(e: Explanation, figure: Figure, axes: Axes) -> None:
    """The features that changed, as bars."""
    table = e.table()
    shown = table.head(SHOWN)
    at = np.arange(len(shown))
    chart(axes)  # before there are ticks, each of which would be changed
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.yaxis.set_label_coords(0, 0.5)  # there is no label: its place need not be looked for
    bars = shown["change"].fillna(1.0)  # of words: one of the 0 or 1 that stand for them rose by 1
    axes.barh(at, bars, color=BAR, height=0.62)
    axes.set_yticks(at, shown["feature"].tolist())
    axes.invert_yaxis()
    axes.axvline(0, color=QUIET, linewidth=0.8)
    # A little beside the middle, as plain texts: annotations are placed anew at each look.
    aside = {
        side: axes.transData + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)
        for side, points in (("right", -4), ("left", 4))
    }
    sides = zip(shown["before"].tolist(), shown["after"].tolist(), strict=True)
    words = shown["change"].isna().tolist()
    for y, bar, ends, said in zip(at.tolist(), bars.tolist(), sides, words, strict=True):
        inward = "right" if bar >= 0 else "left"
        before, after = (end if said else f"{end:.3g}" for end in ends)
        axes.text(
            0,
            y,
            f"{before} → {after}",
            transform=aside[inward],
            ha=inward,
            va="center",
            fontsize=7.5,
            color=INK,
        )
    more = f" (the {len(shown)} largest of {len(table)})" if len(table) > len(shown) else ""
    title = f"What changed{more}" if len(table) else "Nothing changed"
    axes.set_title(title, fontsize=10, color=INK, y=1.0)
    span = max(bars.abs().max() if len(shown) else 1.0, 1e-12)
    axes.set_xlim(-1.15 * span, 1.15 * span)
    axes.set_xlabel("change", fontsize=8)
