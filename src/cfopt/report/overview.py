"""All tasks at a glance: counts, distances, time, and two small charts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from cfopt._typing import Array
from cfopt.drawing import elements as svg
from cfopt.drawing.panel import has_images
from cfopt.names import counted, join_words
from cfopt.report.changes import feature_moves
from cfopt.report.sentences import MEANING, PLAIN
from cfopt.report.tally import Tally
from cfopt.report.trends import land_trend, trend
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import compared, measured
from cfopt.result.status import Status
from cfopt.result.wording import terms

#: The bars of the chart of distances, and its size.
_BINS, _WIDTH, _HEIGHT = 24, 480, 96
#: How many features the question names.
_NAMED = 8
#: The width of the bar of statuses.
_SHARE = 1000


@dataclass(frozen=True)
class Count:
    """How many tasks ended in one way."""

    status: Status
    plain: str
    number: int
    meaning: str

    @property
    def slug(self) -> str:
        """The status as a class."""
        return self.status.value.replace(" ", "-")


@dataclass(frozen=True)
class Fact:
    """A number worth knowing, and what it is."""

    value: str
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Overview:
    """What is said about all tasks together."""

    asked: str
    lede: str
    trend: str
    counts: tuple[Count, ...]
    facts: tuple[Fact, ...]
    shares: Markup
    distances: Markup | None
    measured: str
    compared: str


def overview(e: Explanation, seconds: float, tally: Tally | None = None) -> Overview:
    """Sum up an explanation of any number of rows.

    Arguments:
        e: the explanation, or a sample of its rows.
        seconds: the time it took to find it.
        tally: what all rows say together, where these are a sample.
    """
    said = (trend(e, feature_moves(e)) or land_trend(e)) if tally is None else ""
    if tally is None:
        tally = Tally()
        tally.add(e, np.arange(len(e)))
    counts = tuple(
        Count(status, PLAIN[status], tally.status[status], MEANING[status])
        for status in Status
        if tally.status[status]
    )
    distances, proved_by = tally.distances.values, compared(e)
    return Overview(
        asked=_asked(e),
        lede=_lede(tally),
        trend=said,
        counts=counts,
        facts=tuple(_facts(tally, seconds, proved_by)),
        shares=_shares(counts, tally.rows),
        distances=_histogram(distances),
        measured=measured(e),
        compared=proved_by,
    )


def _asked(e: Explanation) -> str:
    """What was asked, and of what: the question, and what may differ in an answer."""
    margin = f" By a margin of {100 * e.margin:g}%." if e.margin else ""
    if not len(e) or has_images(e):
        what = "images" if len(e) else ""
    else:
        names = e.features.names
        what = join_words(list(names), most=_NAMED) if names else f"{e.x0[0].numel():,} features"
    asked = f"{e.criterion.ask()}{margin}{terms(e.asked)}"
    return asked + (f" Asked of {what}." if what else "")


def _lede(tally: Tally) -> str:
    asked, answered = tally.rows, tally.answered
    if not asked:
        return "No question was asked."
    proved = tally.status[Status.PROVED_INFEASIBLE]
    text = f"{asked:,} {'question' if asked == 1 else 'questions'} asked, {answered:,} answered"
    if sampled := tally.status[Status.SAMPLED]:
        text += f" ({sampled:,} only at the points that were tried)"
    if proved:
        text += f"; {proved:,} proved to have no answer"
    rest = asked - answered - proved
    return text + (f"; {rest:,} left without an answer." if rest else ".")


def _facts(tally: Tally, seconds: float, measure: str) -> list[Fact]:
    facts = []
    if tally.rows:
        detail = f"{tally.answered:,} of {tally.rows:,}"
        facts.append(Fact(percent(tally.answered, tally.rows), "Answered", detail))
    if tally.found:
        spread = f"{tally.nearest:.3g} to {tally.farthest:.3g}"
        facts.append(Fact(f"{np.median(tally.distances.values):.3g}", "Median distance", spread))
        detail = f"of {counted(tally.found, 'change')} found"
        detail += f", measured {measure}" if measure and tally.closest else ""
        facts.append(Fact(f"{tally.closest:,}", "Proved closest", detail))
    if tally.rated:
        detail = "answers that are not unusual"
        facts.append(Fact(percent(tally.usual, tally.rated), "Plausible", detail))
    each = f"{duration(seconds / tally.rows)} a task" if tally.rows > 1 else ""
    facts.append(Fact(duration(seconds), "Time to explain", each))
    return facts


def percent(part: int, whole: int) -> str:
    """A share in percent; 100% is all of them, and 0% is none."""
    share = 100 * part / whole
    return f"{share:.0f}%" if part in (0, whole) else f"{min(max(share, 0.1), 99.9):.3g}%"


def duration(seconds: float) -> str:
    """A time as one would say it: "40 ms", "2.5 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _shares(counts: tuple[Count, ...], total: int) -> Markup:
    """One bar, divided as the tasks ended."""
    gap = 4
    room = _SHARE - gap * max(len(counts) - 1, 0)
    # A share of one in a thousand must still be visible.
    wide = np.array([max(count.number / max(total, 1) * room, 6) for count in counts])
    wide = wide * room / wide.sum() if len(wide) else wide
    parts, x = [], 0.0
    for count, width in zip(counts, wide.tolist(), strict=True):
        parts.append(svg.box(x, 0, width, 20, f"share {count.slug}"))
        x += width + gap
    label = "How the tasks ended: " + ", ".join(f"{c.number} {c.plain.lower()}" for c in counts)
    return svg.picture(_SHARE, 20, label, parts, "shares", stretched=True)


def _histogram(distances: Array) -> Markup | None:
    """How far away the answers are; None if they are too few to say."""
    if len(distances) < 3 or not distances.max() > distances.min():
        return None
    bins = min(_BINS, max(5, 2 * round(len(distances) ** 0.5)))
    # From 0 on, so that a bar's place is a distance and not only a rank.
    heights, edges = np.histogram(distances, bins=bins, range=(0, float(distances.max())))
    step = _WIDTH / bins
    unit = _HEIGHT / heights.max()
    parts = [
        svg.box(step * k, _HEIGHT - unit * height, step - 2, unit * height, "tally")
        for k, height in enumerate(heights.tolist())
        if height
    ]
    median = float(np.median(distances))
    at = _WIDTH * median / edges[-1]
    side = "end" if at > _WIDTH / 2 else "start"
    shift = -6 if side == "end" else 6
    parts += [
        svg.path(f"M0 {_HEIGHT + 0.5}H{_WIDTH}", "axis"),
        svg.path(f"M{svg.number(at)} -14V{_HEIGHT}", "median"),
        svg.text(at + shift, -6, f"median {median:.3g}", f"median {side}"),
        svg.text(0, _HEIGHT + 16, "0", "start"),
        svg.text(_WIDTH, _HEIGHT + 16, f"{edges[-1]:.3g}", "end"),
    ]
    label = (
        f"Distances of {counted(len(distances), 'answer')}: from {distances.min():.3g} to "
        f"{distances.max():.3g}, median {median:.3g}"
    )
    shifted = f'<g transform="translate(0 18)">{"".join(parts)}</g>'
    return svg.picture(_WIDTH, _HEIGHT + 40, label, [shifted], "histogram")
