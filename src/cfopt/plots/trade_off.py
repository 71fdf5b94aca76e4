"""The picture of a trade-off: how near answers are with one change, with two, and so on."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure

from cfopt.drawing.mpl import DASHED, INK, QUIET, chart
from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.plots.common import finish
from cfopt.plots.style import ALTERNATIVE, FACTUAL, canvas
from cfopt.result.nearness import measured
from cfopt.result.status import Status
from cfopt.result.trade_off import TradeOff
from cfopt.result.wording import question

#: How many features are named at a point.
_NAMED = 3


def plot_trade_off(curve: TradeOff, path: str | Path | None = None) -> Figure:
    """Draw the trade-off of one context, and save it if a path is given (PNG, SVG or PDF)."""
    free, answers = curve.unrestricted, curve.answers[0]
    if not answers:
        raise InputError(f"There is nothing to draw: {curve.verdict()}")
    figure = canvas(8, 4.6, rect=(0.01, 0.01, 0.98, 0.80))
    axes = figure.subplots()
    asked = question(free.criterion, free.margin)
    figure.text(0.015, 0.93, fill(asked, 90), fontsize=12, fontweight="bold", color=INK)
    figure.text(0.015, 0.90, fill(curve.verdict(), 120), va="top", fontsize=10, color=INK)
    points = [(k, d) for k, d in enumerate(curve.distances(0), 1) if d is not None]
    least = float(free.distance[0])
    axes.axhline(least, color=QUIET, linewidth=1, linestyle=DASHED, label="any number of changes")
    if points:
        counts, distances = zip(*points, strict=True)
        axes.plot(counts, distances, "o-", color=ALTERNATIVE, label="at most so many changes")
    for count, distance in points:
        names = answers[count - 1].table()["feature"].astype(str).tolist()
        axes.annotate(
            join_words(names, most=_NAMED),
            (count, distance),
            xytext=(6, 6),
            textcoords="offset points",
            fontsize=8,
            color=INK,
        )
    for count, one in enumerate(answers, 1):
        if not one.answered[0]:
            impossible = one.status[0] is Status.PROVED_INFEASIBLE
            words = "impossible" if impossible else "none found"
            axes.axvline(count, color=FACTUAL, linewidth=1, linestyle=":")
            axes.annotate(
                words,
                (count, 0),
                rotation=90,
                xytext=(4, 8),
                color=FACTUAL,
                fontsize=8,
                textcoords="offset points",
            )
    axes.set_xticks(range(1, len(answers) + 1))
    axes.set_xlim(0.6, len(answers) + 0.9)
    axes.set_ylim(0, 1.2 * max([least, *(distance for _, distance in points)]))
    axes.set_xlabel("changed features, at most", fontsize=9)
    axes.set_ylabel(", ".join(filter(None, ["distance", measured(free)])), fontsize=9)
    axes.legend(frameon=False, fontsize=8.5)
    chart(axes)
    return finish(figure, path)
