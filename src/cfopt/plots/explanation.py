"""The picture of one explanation: decision and costs before and after, and what moved."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cfopt.certificate import Clash
from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.plots.decisions import Mark, Scene, draw_decision
from cfopt.plots.style import ALTERNATIVE, BAR, COSTS, FACTUAL, INK, OBSTACLES, QUIET, canvas, chart
from cfopt.problems import GridShortestPath, TerrainShortestPath
from cfopt.types import Array, Sense, Status
from cfopt.wording import question

#: How many features the picture shows, the largest changes first.
_FEATURES = 12


def plot_explanation(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw an explanation of one row, and save it if a path is given (PNG, SVG or PDF)."""
    e = explanation
    if e.status[0] is Status.REJECTED:
        raise InputError(f"There is nothing to draw, the row was rejected: {e.message[0]}.")
    figure = canvas(12, 4.9, rect=(0.01, 0.08, 0.98, 0.79))
    left, right, changes = figure.subplots(1, 3, width_ratios=[1, 1, 0.9])
    figure.text(
        0.015, 0.955, question(e.criterion, e.margin), fontsize=14, fontweight="bold", color=INK
    )
    verdict = fill(f"{e.status[0].capitalize()}: {e.message[0]}.", 150)
    figure.text(0.015, 0.93, verdict, va="top", fontsize=10, color=INK)

    before, after = _prices(e, "costs_before"), _prices(e, "costs")
    both = np.concatenate([before, after])
    both = both[np.isfinite(both)]
    scale = Normalize(both.min(), both.max()) if both.size else Normalize(0, 1)
    factual = Mark(e.factual[0].double().cpu().numpy(), FACTUAL)
    other = Mark(e.alternative[0].double().cpu().numpy(), ALTERNATIVE)
    _panel(e, left, "Before", Scene(before, factual, other, scale))
    handles = [
        Line2D([], [], color=FACTUAL, linewidth=4, label="the decision"),
        Line2D([], [], color=ALTERNATIVE, linewidth=4, label=_other(e)),
    ]
    clash = e.clash[0]
    if clash is not None:
        handles += _obstacles(e, right, clash, Scene(before, factual, other, scale))
        _reasons(changes, clash)
    else:
        front, back = (other, factual) if e.valid[0] else (factual, other)
        _panel(e, right, "After", Scene(after, front, back, scale))
        _changes(e, changes)
    if isinstance(e.problem, GridShortestPath | TerrainShortestPath):
        handles.append(
            Line2D([], [], color=COSTS(0.6), linewidth=9, label="costs: darker is dearer")
        )
    figure.legend(handles=handles, loc="lower left", ncols=5, frameon=False, fontsize=9.5)
    if path is not None:
        figure.savefig(path)
    return figure


def _other(e: Explanation) -> str:
    return "the alternative" if e.criterion.contrasts else "what is best then"


def _prices(e: Explanation, name: str) -> Array:
    costs = getattr(e, name).double().cpu()
    if e.problem is None and costs.shape != e.factual.shape:
        raise InputError(
            "The picture needs the fixed costs of the problem. Read the explanation with "
            "from_json(path, problem=...)."
        )
    prices: Array = (costs if e.problem is None else e.problem.prices(costs))[0].numpy()
    return prices


def _panel(e: Explanation, axes: Axes, title: str, scene: Scene) -> None:
    draw_decision(e.problem, axes, scene)
    unit = "costs" if e.sense is Sense.MIN else "is worth"
    value = {mark.color: scene.prices @ mark.decision for mark in (scene.strong, scene.weak)}
    axes.set_title(
        f"{title}: the decision {unit} {value[FACTUAL]:.3g},\n"
        f"{_other(e)} {unit} {value[ALTERNATIVE]:.3g}",
        fontsize=10,
        color=INK,
    )


def _obstacles(e: Explanation, axes: Axes, clash: Clash, scene: Scene) -> list[Line2D]:
    """The first two decisions that the alternative cannot beat at once."""
    marks = [Mark(y, color) for y, color in zip(clash.decisions, OBSTACLES, strict=False)]
    strong, weak = (*marks, scene.weak, scene.strong)[:2]
    draw_decision(e.problem, axes, Scene(scene.prices, strong, weak, scene.scale))
    count = len(clash.decisions)
    title = f"In its way: {min(count, 2)} of {count} decisions" if count > 2 else "In its way"
    axes.set_title(title if count else "No context helps", fontsize=10, color=INK)
    letters = zip("AB", marks, strict=False)
    return [Line2D([], [], color=mark.color, linewidth=4, label=name) for name, mark in letters]


def _reasons(axes: Axes, clash: Clash) -> None:
    """The limits on the context that take part, in words."""
    axes.set_axis_off()
    parts = [("Limits that take part", clash.limits), ("Locked, and taking part", clash.locked)]
    lines = [f"{title}:\n  " + "\n  ".join(names[:_FEATURES]) for title, names in parts if names]
    text = "\n\n".join(lines) or "No limit takes part:\nit is so in every context."
    axes.text(0.05, 0.95, text, va="top", fontsize=10, color=INK, transform=axes.transAxes)


def _changes(e: Explanation, axes: Axes) -> None:
    """The features that moved, as bars; images have too many features for that."""
    table = e.table()
    shown = table.head(_FEATURES)
    at = np.arange(len(shown))
    axes.barh(at, shown["change"], color=BAR, height=0.62)
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
    axes.set_title(f"What moved{more}" if len(table) else "Nothing moved", fontsize=10, color=INK)
    span = max(shown["change"].abs().max() if len(shown) else 1.0, 1e-12)
    axes.set_xlim(-1.15 * span, 1.15 * span)
    axes.set_xlabel("change", fontsize=8)
    chart(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
