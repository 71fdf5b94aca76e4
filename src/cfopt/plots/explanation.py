"""The picture of one explanation: decision and costs before and after, and what moved."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cfopt.explanation import Explanation
from cfopt.plots.decisions import Scene, draw_decision
from cfopt.plots.style import INK, OTHER, QUIET, TAKEN, canvas, chart
from cfopt.types import Array, Sense
from cfopt.wording import question

#: How many features the picture shows, the largest changes first.
_FEATURES = 12


def plot_explanation(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw an explanation of one row, and save it if a path is given (PNG, SVG or PDF)."""
    e = explanation
    figure = canvas(12, 4.6)
    figure.suptitle(f"{question(e.criterion)}\n", fontsize=13, fontweight="bold", color=INK)
    verdict = fill(f"{e.status[0].capitalize()}: {e.message[0]}.", 150)
    figure.text(0.5, 0.905, verdict, ha="center", va="top", fontsize=9.5, color=INK)
    left, right, changes = figure.subplots(1, 3, width_ratios=[1, 1, 0.9])

    before, after = _prices(e, "costs_before"), _prices(e, "costs")
    factual, decision = e.factual[0].cpu().double().numpy(), e.alternative[0].cpu().double().numpy()
    both = np.concatenate([before, after])
    both = both[np.isfinite(both)]
    scale = Normalize(both.min(), both.max()) if both.size else Normalize(0, 1)
    other = "alternative" if e.criterion.contrasts else "new best"
    _panel(e, left, "Before", Scene(before, factual, decision, scale), ("decision", other))
    _panel(e, right, "After", Scene(after, decision, factual, scale), (other, "decision"))
    handles = [
        Line2D([], [], color=TAKEN, linewidth=3.5, label="better of the two, in its panel"),
        Line2D([], [], color=OTHER, linewidth=2, linestyle=(0, (2, 1.5)), label="the other one"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    _changes(e, changes)
    if path is not None:
        figure.savefig(path)
    return figure


def _prices(e: Explanation, name: str) -> Array:
    costs = getattr(e, name).double().cpu()
    prices: Array = (costs if e.problem is None else e.problem.prices(costs))[0].numpy()
    return prices


def _panel(e: Explanation, axes: Axes, title: str, scene: Scene, names: tuple[str, str]) -> None:
    draw_decision(e.problem, axes, scene)
    unit = "cost" if e.sense is Sense.MIN else "value"
    shown, behind = scene.prices @ scene.shown, scene.prices @ scene.behind
    axes.set_title(
        f"{title}: {unit} of {names[0]} {shown:.3g}, of {names[1]} {behind:.3g}",
        fontsize=9.5,
        color=INK,
    )


def _changes(e: Explanation, axes: Axes) -> None:
    """The features that moved, as bars; images have too many features for that."""
    table = e.table()
    shown = table.head(_FEATURES)
    at = np.arange(len(shown))
    colors = np.where(shown["change"] >= 0, TAKEN, OTHER).tolist()
    axes.barh(at, shown["change"], color=colors, height=0.68)
    axes.set_yticks(at, shown["feature"].tolist())
    axes.invert_yaxis()
    axes.axvline(0, color=QUIET, linewidth=0.8)
    for y, (_, row) in zip(at, shown.iterrows(), strict=True):
        inward = "right" if row["change"] >= 0 else "left"
        axes.annotate(
            f"{row['before']:.3g} → {row['after']:.3g}",
            (0, y),
            xytext=(-4 if inward == "right" else 4, 0),
            textcoords="offset points",
            ha=inward,
            va="center",
            fontsize=7.5,
            color=INK,
        )
    more = f" (the {len(shown)} largest of {len(table)})" if len(table) > len(shown) else ""
    axes.set_title(f"What moved{more}" if len(table) else "Nothing moved", fontsize=9.5, color=INK)
    span = max(shown["change"].abs().max() if len(shown) else 1.0, 1e-12)
    axes.set_xlim(-1.15 * span, 1.15 * span)
    axes.set_xlabel("change", fontsize=8)
    chart(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
