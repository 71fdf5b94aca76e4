"""What the answers of any number of rows say together, counted part by part in a fixed room."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt.drawing.panel import has_images, host
from cfopt.report.plausible import ratings
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import measured
from cfopt.result.status import Status

#: Numbers, row numbers or truth values.
Array: TypeAlias = NDArray[Any]
#: How many values are kept to tell medians by: of distances, and of each feature's changes.
_KEPT, _KEPT_CHANGES = 20_000, 1_000
#: Changes below this fraction of the largest of their row do not count; and below this they are not
#: what an answer is mainly about.
_COUNTS, _MAIN = 0.05, 1 / 3
#: How many features an answer is mainly about, at most; and how many kinds are distinguished.
_MOST_MAIN, _MOST_KINDS = 3, 4096
#: Rows of a kind among which the typical one is looked for.
_CANDIDATES = 16
#: How many reasons are distinguished.
_MOST_REASONS = 1000
#: A feature has changed if it moved by more than this fraction of its size (at least of 1).
_CHANGED = 1e-6


class Sample:
    """Some of many numbers, chosen by what they belong to, whatever the order they come in.

    Arguments:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._keys: Array = np.zeros(0, dtype=np.uint64)
        self.values: Array = np.zeros(0)

    def add(self, rows: Array, values: Array) -> None:
        """Numbers of rows, each of which has a place in a shuffled order of its own."""
        keys = np.concatenate([self._keys, shuffled(rows)])
        found = np.concatenate([self.values, values])
        if len(keys) > self.most:
            first = np.argpartition(keys, self.most)[: self.most]
            keys, found = keys[first], found[first]
        self._keys, self.values = keys, found


def shuffled(rows: Array) -> Array:
    """A number for each row that looks random and is always the same: `(B,) -> (B,)`."""
    # The finaliser of splitmix64, which turns counters into well-mixed bits.
    z = np.asarray(rows).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = z ^ (z >> np.uint64(31))
    return mixed


@dataclass
class Kind:
    """Answers that mainly move the same features in the same directions."""

    count: int = 0
    total: Array = field(default_factory=lambda: np.zeros(0))
    rows: list[tuple[int, int, Array]] = field(default_factory=list)

    def add(self, row: int, key: int, change: Array) -> None:
        """An answer, by its row and the changes of all features in units of their scales."""
        self.count += 1
        self.total = change.copy() if not len(self.total) else self.total + change
        self.rows.append((key, row, change.copy()))  # a view would keep all rows of its part
        if len(self.rows) > 2 * _CANDIDATES:
            self.rows = sorted(self.rows, key=lambda one: one[0])[:_CANDIDATES]

    @property
    def mean(self) -> Array:
        """The mean change of each feature, in units of its scale."""
        mean: Array = self.total / self.count
        return mean

    @property
    def typical(self) -> int:
        """The row whose change is nearest to the mean, of some."""
        rows = sorted(self.rows, key=lambda one: one[0])[:_CANDIDATES]
        return min(rows, key=lambda one: float(np.linalg.norm(one[2] - self.mean)))[1]


class Tally:
    """Counts over all rows, to which parts are added; none of them is kept."""

    def __init__(self) -> None:
        self.rows = 0
        self.status: Counter[Status] = Counter()
        self.answered = self.found = self.closest = self.ties = self.rated = self.usual = 0
        self.distances = Sample(_KEPT)
        #: How distances are measured.
        self.measured = ""
        self.nearest, self.farthest = np.inf, -np.inf
        self.names: tuple[str, ...] = ()
        self.scale: Array = np.zeros(0)
        self.rises: Array = np.zeros(0, dtype=np.int64)
        self.falls: Array = np.zeros(0, dtype=np.int64)
        self.sizes: list[Sample] = []
        self.kinds: dict[tuple[tuple[int, bool], ...], Kind] = {}
        #: Answers of kinds that came when there were already too many.
        self.other_kinds = 0
        #: Why rows have no answer, with one of them.
        self.reasons: dict[tuple[Status, str], list[int]] = {}
        self._sums = {True: np.zeros((3, 0)), False: np.zeros((3, 0))}

    def add(self, e: Explanation, rows: Array) -> None:
        """Count some rows.

        Arguments:
            e: the rows.
            rows: their numbers, `(B,)`.
        """
        self.rows += len(e)
        self.status.update(e.status)
        answered = host(e.answered).astype(bool)
        found = answered & (host(e.steps) > 0)
        self.answered += int(answered.sum())
        self.found += int(found.sum())
        self.closest += int((host(e.optimal).astype(bool) & found).sum())
        self.ties += int((host(e.tie).astype(bool) & found).sum())
        distance = host(e.distance)[found]
        if len(distance):
            self.measured = measured(e)
            self.distances.add(rows[found], distance)
            self.nearest = min(self.nearest, float(distance.min()))
            self.farthest = max(self.farthest, float(distance.max()))
        if e.latent is not None and answered.any():
            words = [word for word, ok in zip(ratings(e), answered.tolist(), strict=True) if ok]
            self.rated += len(words)
            self.usual += len(words) - words.count("unusual")
        self._explain_none(e, rows, answered)
        if len(e) and not has_images(e):
            self._count_changes(e, rows, found)
            self._describe(e, answered)

    def _count_changes(self, e: Explanation, rows: Array, found: Array) -> None:
        before, after = (x.flatten(1).double().cpu().numpy() for x in (e.x0, e.x))
        if not self.names:
            size = before.shape[1]
            self.names = tuple(e.features.labels(size))
            self.scale = np.array(e.features.scales or [1.0] * size, dtype=np.float64)
            self.rises, self.falls = np.zeros(size, np.int64), np.zeros(size, np.int64)
            self.sizes = [Sample(_KEPT_CHANGES) for _ in range(size)]
        change = (after - before)[found]
        numbers, keys = rows[found], shuffled(rows[found])
        scaled = change / self.scale
        size = np.abs(scaled)
        largest = size.max(axis=1, keepdims=True, initial=0.0)
        moved = np.abs(change) > _CHANGED * np.maximum(np.abs(before[found]), 1.0)
        counts = moved & (size >= _COUNTS * largest)
        self.rises += (counts & (change > 0)).sum(axis=0)
        self.falls += (counts & (change < 0)).sum(axis=0)
        for j in np.flatnonzero(counts.any(axis=0)):
            self.sizes[j].add(numbers[counts[:, j]], change[counts[:, j], j])
        main = counts & (size >= _MAIN * largest)
        order = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_MAIN]
        for i in range(len(change)):
            chosen = sorted(int(j) for j in order[i] if main[i, j])
            kind = tuple((j, bool(change[i, j] > 0)) for j in chosen)
            if kind not in self.kinds and len(self.kinds) >= _MOST_KINDS:
                self.other_kinds += 1
            else:
                self.kinds.setdefault(kind, Kind()).add(int(numbers[i]), int(keys[i]), scaled[i])

    def _explain_none(self, e: Explanation, rows: Array, answered: Array) -> None:
        for i in np.flatnonzero(~answered).tolist():
            status = e.status[i]
            reason = (status, _reason(e, i))
            if reason not in self.reasons and len(self.reasons) >= _MOST_REASONS:
                reason = (status, "other reasons")
            self.reasons.setdefault(reason, [0, int(rows[i])])[0] += 1

    def _describe(self, e: Explanation, answered: Array) -> None:
        """Sums of features and of their squares, of rows with and without an answer."""
        x = e.x0.flatten(1).double().cpu().numpy()
        finite = np.isfinite(x).all(axis=1)
        for so in (True, False):
            some = x[finite & (answered == so)]
            sums = np.stack([np.full(x.shape[1], len(some)), some.sum(0), (some**2).sum(0)])
            known = self._sums[so]
            self._sums[so] = sums if known.shape[1] == 0 else known + sums

    def means(self, answered: bool) -> tuple[int, Array, Array]:
        """How many rows have an answer, or none; means and deviations of their features."""
        count, total, squares = self._sums[answered]
        number = int(count[0]) if len(count) else 0
        if not number:
            return 0, total, total
        mean = total / number
        return number, mean, np.sqrt(np.maximum(squares / number - mean**2, 0.0))


def _reason(e: Explanation, row: int) -> str:
    """Why a row has no answer, without what is special to it."""
    clash = e.clash[row]
    if clash is not None:
        if clash.why:
            return re.sub(r"\d[\d.,e+-]*", "…", clash.why)
        parts = [f"limits of {', '.join(clash.limits)}"] if clash.limits else []
        parts += [f"locked: {', '.join(clash.locked)}"] if clash.locked else []
        return "; ".join(parts) or "other decisions are better whatever the context is"
    return re.sub(r"-?\d[\d.,e+-]*", "…", e.message[row])
