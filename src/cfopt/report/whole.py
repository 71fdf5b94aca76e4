"""The answers of a whole run in words: what changes, kinds of answers, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt.drawing import elements as svg
from cfopt.names import join_words
from cfopt.report.overview import percent
from cfopt.report.sentences import PLAIN
from cfopt.report.tally import Tally
from cfopt.result.status import Status

#: How many features, kinds of answers, reasons and differences are listed.
_FEATURES, _GROUPS, _REASONS, _WHERE = 24, 8, 10, 3
#: Rows without an answer differ in a feature if means are this many deviations apart.
_APART = 0.5


@dataclass(frozen=True)
class FeatureLine:
    """How often a feature changes, in which direction, and by how much."""

    name: str
    share: float
    often: str
    rises: str
    falls: str
    by: str


@dataclass(frozen=True)
class Group:
    """Answers of a kind: which share of all, what they do, and a typical row."""

    share: str
    words: str
    typical: int


@dataclass(frozen=True)
class Reason:
    """Why rows have no answer: how many, and one of them."""

    number: str
    words: str
    row: int


@dataclass(frozen=True)
class Whole:
    """What is said about all rows together."""

    caption: str
    features: tuple[FeatureLine, ...]
    groups: tuple[Group, ...]
    none: tuple[Reason, ...]
    where: tuple[str, ...]

    @property
    def rows(self) -> list[int]:
        """The rows that it points to."""
        return [*(one.typical for one in self.groups), *(one.row for one in self.none)]


def whole(tally: Tally) -> Whole:
    """Put a tally into words."""
    return Whole(
        caption=f"Of {tally.found:,} {'answer' if tally.found == 1 else 'answers'} that were found",
        features=_features(tally),
        groups=_groups(tally),
        none=_none(tally),
        where=_where(tally),
    )


def _features(tally: Tally) -> tuple[FeatureLine, ...]:
    often = tally.rises + tally.falls
    order = np.argsort(-often, kind="stable")[:_FEATURES]
    return tuple(_feature(tally, int(j)) for j in order if often[j])


def _feature(tally: Tally, j: int) -> FeatureLine:
    rises, falls = int(tally.rises[j]), int(tally.falls[j])
    quantiles = np.quantile(tally.sizes[j].values, [0.25, 0.5, 0.75])
    low, median, high = (svg.signed(f"{value:+.3g}") for value in quantiles)
    by = f"{median} ({low} to {high})"
    return FeatureLine(
        tally.names[j],
        (rises + falls) / tally.found,
        percent(rises + falls, tally.found),
        percent(rises, tally.found),
        percent(falls, tally.found),
        by,
    )


def _groups(tally: Tally) -> tuple[Group, ...]:
    kinds = sorted(tally.kinds.items(), key=lambda one: (-one[1].count, one[0]))[:_GROUPS]
    found = []
    for kind, members in kinds:
        if not kind:
            continue
        mean = members.mean * tally.scale
        parts = [
            f"{tally.names[j]} {'rises' if up else 'falls'} (by {abs(mean[j]):.3g} on average)"
            for j, up in kind
        ]
        share = percent(members.count, tally.found)
        found.append(Group(share, f"mainly: {join_words(parts)}.", members.typical))
    return tuple(found)


def _none(tally: Tally) -> tuple[Reason, ...]:
    ordered = sorted(tally.reasons.items(), key=lambda one: (-one[1][0], one[0]))[:_REASONS]
    return tuple(
        Reason(f"{number:,}", f"{PLAIN[status].lower()}: {reason}.", row)
        for (status, reason), (number, row) in ordered
    )


def _where(tally: Tally) -> tuple[str, ...]:
    """In which features rows without an answer differ most from the others."""
    answered, mean, deviation = tally.means(True)
    without, other, _ = tally.means(False)
    if not answered or not without:
        return ()
    apart = np.abs(other - mean) / np.where(deviation > 0, deviation, np.inf)
    order = [int(j) for j in np.argsort(-apart, kind="stable")[:_WHERE] if apart[j] >= _APART]
    return tuple(
        f"Rows without an answer have {tally.names[j]} of {other[j]:.3g} on average, those with "
        f"one {mean[j]:.3g}."
        for j in order
    )


def lines(tally: Tally) -> list[str]:
    """The same in a few lines for the terminal."""
    ended = ", ".join(f"{tally.status[one]:,} {one}" for one in Status if tally.status[one])
    said = [f"{tally.rows:,} contexts: {ended}."]
    if tally.found:
        middle = np.median(tally.distances.values)
        how = f", measured {tally.measured}" if tally.measured else ""
        said.append(
            f"Distance of what was found{how}: median {middle:.3g}, largest {tally.farthest:.3g}; "
            f"{tally.ties:,} ties, {tally.closest:,} proved to be the closest possible."
        )
    seen = whole(tally)
    said += [
        f"  {one.name} changes in {one.often} of the answers: rises in {one.rises}, falls in "
        f"{one.falls}; by {one.by}"
        for one in seen.features[:3]
    ]
    said += [f"  {one.share} {one.words}" for one in seen.groups[:3]]
    return said + [f"  {one.number} {one.words}" for one in seen.none[:3]]
