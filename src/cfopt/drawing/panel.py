"""What one picture shows: decisions over prices, in a scene; and how an explanation gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from cfopt._batch import once
from cfopt._typing import Array, Indices
from cfopt.errors import InputError
from cfopt.problems.scene import Bars, Scene
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.result.explanation import Explanation

#: The most bars of items, and of other entries, that a picture has.
_ITEMS, _BARS = 24, 12
_SAME = 1e-9


@dataclass(frozen=True)
class Line:
    """A decision `(m,)` and its role: "factual", "other", "third", "rival1" or "rival2"."""

    decision: Array
    role: str


@dataclass(frozen=True)
class Panel:
    """One picture: decisions over prices.

    Arguments:
        scene: what decisions look like.
        prices: the price of each entry, `(m,)`.
        strong: the decision in the foreground.
        weak: those to compare it with.
        low, high: the range of prices, shared by the panels of a task.
        label: what is seen, in words.
        backdrop: the map to draw on, as a data URI; "" for the costs.
    """

    scene: Scene
    prices: Array
    strong: Line
    weak: tuple[Line, ...]
    low: float
    high: float
    label: str = ""
    backdrop: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """All decisions, the one in the foreground first."""
        return self.strong, *self.weak

    @property
    def beside(self) -> Line:
        """What bars compare the foreground with; itself where there is nothing else."""
        return self.weak[0] if self.weak else self.strong

    @property
    def items(self) -> bool:
        """Whether bars are as long as prices, each filled or not."""
        return self.scene.kind == "items"

    @property
    def columns(self) -> Indices:
        """The entries that are drawn as bars.

        Of items those that either decision takes come first, in their own order; else those in
        which the two differ, the most expensive first.
        """
        strong, weak = self.strong.decision, self.beside.decision
        if self.items:
            idle = (strong <= 0.5) & (weak <= 0.5)
            return np.sort(np.argsort(idle, kind="stable")[:_ITEMS])
        order = self.differing[np.argsort(-np.abs(self.prices[self.differing]), kind="stable")]
        return np.asarray(order[:_BARS], dtype=np.intp)

    @property
    def differing(self) -> Indices:
        """The entries in which the two decisions differ."""
        return np.flatnonzero(np.abs(self.strong.decision - self.beside.decision) > _SAME)

    @property
    def shades(self) -> Array:
        """Where each price lies in their range, from 0 to 1: `(m,)`."""
        span = self.high - self.low
        fraction = (self.prices - self.low) / span if span > 0 else np.zeros(len(self.prices))
        shades: Array = np.fmin(np.fmax(fraction, 0.0), 1.0)  # 0 where it is not a number
        return shades


def host(values: Tensor) -> Array:
    """A tensor as an array of float64."""
    array: Array = values.detach().double().cpu().numpy()
    return array


def scene_of(e: Explanation) -> Scene:
    """What the decisions of an explanation look like; bars where its problem is not known."""
    return Bars.unnamed(e.factual.shape[1]) if e.problem is None else e.problem.cached_scene


class Decisions(NamedTuple):
    """Those of one row: the factual one, the one it is compared with, the one at x, `(m,)` each."""

    factual: Array
    other: Array
    there: Array


@once
def decisions(e: Explanation) -> Decisions:
    """The decisions of the first row."""
    return Decisions(host(e.factual[0]), host(e.alternative[0]), host(e.decision[0]))


def marks(e: Explanation) -> tuple[Line, Line]:
    """The factual decision of the first row, and the one it is compared with."""
    return Line(decisions(e).factual, "factual"), Line(decisions(e).other, "other")


@once
def same(e: Explanation) -> bool:
    """Whether the first row compares a decision with itself."""
    return _agree(decisions(e).other, decisions(e).factual)


@once
def unmoved(e: Explanation) -> bool:
    """Whether the factual decision is what is decided at x in the first row."""
    return _agree(decisions(e).there, decisions(e).factual)


@once
def chosen_elsewhere(e: Explanation) -> bool:
    """Whether what is decided at x is neither of the two decisions that are compared."""
    _, other, there = decisions(e)
    return bool(np.isfinite(there).all()) and not (unmoved(e) or _agree(there, other))


def _agree(left: Array, right: Array) -> bool:
    """Whether two decisions are the same, as `same_decision` says it of many: `(m,), (m,)`."""
    size = np.maximum(np.abs(right), 1.0)
    return bool((np.abs(left - right) <= FEASIBILITY_TOLERANCE * size).all())


def winner_first(e: Explanation) -> list[Line]:
    """The decisions at x in the first row, the one that wins there first."""
    factual, other = marks(e)
    third = [Line(decisions(e).there, "third")] if chosen_elsewhere(e) else []
    if bool(e.answered[0]):
        return [factual, *third] if same(e) else [other, factual, *third]
    if unmoved(e):
        return [factual, other]
    return [*third, other, factual]


def has_images(e: Explanation) -> bool:
    """Whether the contexts are images, grey or in colour: `(B, C, H, W)`."""
    return e.x0.ndim == 4 and e.x0.shape[1] in (1, 3)


def has_maps(e: Explanation) -> bool:
    """Whether the contexts are images that are crossed."""
    return has_images(e) and scene_of(e).kind == "cells"


def prices(e: Explanation, name: str) -> Array:
    """The price of each entry in the first row, at `costs_before` or at `costs`: `(m,)`."""
    return _prices_before(e) if name == "costs_before" else _prices_after(e)


@once
def _prices_before(e: Explanation) -> Array:
    return prices_at(e, e.costs_before)


@once
def _prices_after(e: Explanation) -> Array:
    return prices_at(e, e.costs)


def prices_at(e: Explanation, costs: Tensor) -> Array:
    """The price of each entry at the first row of some costs: `(B, n) -> (m,)`."""
    costs = costs.double().cpu()
    if e.problem is None and costs.shape != e.factual.shape:
        raise InputError(
            "The picture needs the fixed costs of the problem. Read the explanation with "
            "from_json(path, problem=...)."
        )
    return host((costs if e.problem is None else e.problem.prices(costs))[0])


def price_range(parts: Iterable[Array]) -> tuple[float, float]:
    """One range for the prices of several panels."""
    values = np.concatenate(list(parts))
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
