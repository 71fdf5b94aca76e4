"""What is true of one answer, from scratch: whether it holds, and whether it is allowed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.hostile.cases import Case
from benchmarks.hostile.instances import Array
from benchmarks.hostile.pieces import Predictor, cells
from benchmarks.hostile.polyhedra import length, steepest

#: By which fraction of its terms a criterion may be missed by answers, and by our own points.
GRANTED, STRICT = 2e-6, 1e-8
#: Points that are drawn of a ball.
_IN_BALL = 400


@dataclass(frozen=True)
class Truth:
    """One row, or one group, as the judge sees it.

    Arguments:
        case: what was asked.
        row: the row; of a group, each is a scenario.
        factual: the plan of each scenario, `(S, m)`.
    """

    case: Case
    row: int
    factual: Array

    @cached_property
    def x0(self) -> Array:
        """The context; of a group, where points are changes, no change."""
        x = self.case.x0[self.row]
        return np.zeros_like(x) if self.grouped else x

    @cached_property
    def units(self) -> Array:
        return np.ones(len(self.x0)) if self.case.scale is None else self.case.scale

    @cached_property
    def blur(self) -> Array:
        """By how much features are off in a unit ball; not what is counted or chosen."""
        limits, units = self.case.limits, self.units.copy()
        units[[*limits.whole, *limits.group]] = 0.0
        return units

    @property
    def grouped(self) -> bool:
        return self.case.question == "group"

    @cached_property
    def scenarios(self) -> list[Predictor]:
        case, sign = self.case, self.case.problem.sense.sign
        if self.grouped:
            return [Predictor(case.model, sign, x) for x in case.x0]
        still = np.zeros(len(self.x0))
        return [Predictor(model, sign, still) for model in (case.model, *case.others)]

    @property
    def needed(self) -> int:
        count = len(self.scenarios)
        return int(np.ceil(self.case.share * count - 1e-9)) if self.grouped else count

    @property
    def joint(self) -> bool:
        """Whether one plan has to do in every scenario and in the whole ball."""
        return not (self.grouped or self.case.epsilon)

    # Whether it holds.

    def met(self, x: Array, granted: float, margin: float | None = None) -> Array:
        """Which plan does, of those that are argued for, at each point: `(K, p) -> (K, C)`.

        One column, where every scenario may have its own.
        """
        margin = self.case.margin if margin is None else margin
        each = [
            self._met_in(s, one.prices(x), granted, margin) for s, one in enumerate(self.scenarios)
        ]
        if self.joint:
            return np.all(each, axis=0)
        return (np.sum([one.any(axis=1) for one in each], axis=0) >= self.needed)[:, None]

    def _met_in(self, s: int, prices: Array, granted: float, margin: float) -> Array:
        case, y0 = self.case, self.factual[s]
        rounding = 1e-11 * np.maximum(self._sizes[s], np.abs(prices).max(axis=1))
        if case.epsilon:
            values = prices @ case.listed.T
            best, worth = case.listed[values.argmin(axis=1)], prices @ y0
            sign = np.sign(values.min(axis=1))[:, None]
            d = (1 + sign * case.epsilon) * best - y0 + margin * np.sign(worth)[:, None] * y0
            terms, lead = prices * d, prices * (y0 - best)
            holds = terms.sum(1) <= granted * np.abs(terms).sum(1) + rounding
            # The factual plan has to cost more than the best; for our own points, clearly more.
            clearly = 2e-6 * np.abs(lead).sum(1) + 1e-7 * (1 + np.abs(prices).max(axis=1))
            least = clearly if granted == STRICT else 1e-3 * rounding
            return (holds & (lead.sum(1) > least + 1e-300))[:, None]
        found = []
        for plan in self.plans(s):
            d = plan - self.rivals(s, plan)
            h = prices @ d.T + margin * np.abs(prices @ plan)[:, None]
            size = np.abs(prices) @ (np.abs(d) + margin * np.abs(plan)).T
            slack = granted * size.max(axis=1, initial=0.0) + rounding * len(plan)
            found.append((h <= slack[:, None]).all(axis=1))
        return np.array(found).T

    @cached_property
    def _sizes(self) -> list[float]:
        """The largest price of each scenario at the start, of which rounding is a fraction."""
        return [np.abs(one.prices(self.x0[None])).max() for one in self.scenarios]

    def plans(self, s: int) -> Array:
        return self.case.listed[self.case.wanted[s if self.grouped else self.row]]

    def rivals(self, s: int, plan: Array) -> Array:
        case = self.case
        if case.relative:
            return self.factual[s][None]
        if not case.margin:
            return case.listed
        granting = self.plans(s) if case.foil is not None else plan[None]
        other = (case.listed[:, None] != granting[None]).any(axis=2).all(axis=1)
        return case.listed[other]

    def holds(self, x: Array, granted: float = GRANTED) -> bool:
        """Whether the criterion holds at a point."""
        return bool(self.met(x[None], granted).any())

    def withstands(self, x: Array, granted: float = GRANTED, share: float = 0.9999) -> bool:
        """Whether it holds at all points that are drawn of a share of the ball, by one plan."""
        if not self.case.radius:
            return True
        met = self.met(self.around(x, share * self.case.radius, self.case.ball), granted)
        return bool(met.all(axis=0).any() if self.joint else met.any(axis=1).all())

    def around(self, x: Array, radius: float, norm: float) -> Array:
        """Points of a ball: drawn, its corners, where prices are worst, and of every cell in it."""
        units, size = self.blur, len(x)
        rng = np.random.default_rng([self.case.seed, self.case.number, self.row])
        corners = [*itertools.product([-1.0, 1.0], repeat=size)][:256]
        ways = [rng.normal(size=(_IN_BALL, size)), np.eye(size), -np.eye(size), corners]
        for one in self.scenarios:
            step = 1e-5 * np.diag(units)
            slopes = (one.prices(x + step) - one.prices(x - step)) @ self._directions.T
            ways.append(steepest(slopes.T, norm))
        way = np.concatenate(ways)
        lengths = length(way, norm)
        way = way[lengths > 1e-12] / lengths[lengths > 1e-12, None]
        inside = way * rng.random((len(way), 1)) ** (1 / size)
        points = [x[None], x + radius * units * way, x + radius * units * inside]
        if self.lattice is not None:
            nearest = np.clip(x, *self.lattice)
            off = np.divide(
                nearest - x, units, out=np.where(nearest == x, 0, np.inf), where=units > 0
            )
            points.append(nearest[length(off, norm) <= radius])
        return np.concatenate(points)

    @cached_property
    def _directions(self) -> Array:
        """Differences that criteria compare, `(K, m)`."""
        case, pairs = self.case, itertools.product(self.case.listed, repeat=2)
        plain = np.array([a - b for a, b in pairs if (a != b).any()])
        if not case.epsilon:
            return np.unique(plain, axis=0)
        signs = (1 - case.epsilon, 1 + case.epsilon)
        return np.concatenate([a * case.listed - y for a in signs for y in self.factual])

    @cached_property
    def lattice(self) -> tuple[Array, Array] | None:
        """Every cell of all trees, None without trees."""
        cuts = [one.thresholds for one in self.scenarios]
        if any(one is None for one in cuts):
            return None
        return cells([np.unique(np.concatenate(each)) for each in zip(*cuts, strict=True)])

    # What is allowed.

    def loss(self, x: Array) -> float:
        """The distance in units of the scales, `(p,)`; no square."""
        return float(length((x - self.x0)[None] / self.units, self.case.norm)[0])

    def allows(self, x: Array) -> bool:
        """Whether a context keeps all limits; the number of changes to the last digit."""
        limits, slack = self.case.limits, 1e-6 * np.maximum(1.0, np.abs(x))
        (low, high), group = self.box, [*limits.group]
        counted = x[[*limits.whole, *group]]
        return bool(
            (x >= low - slack).all()
            and (x <= high + slack).all()
            and (np.abs(counted - counted.round()) <= 1e-6).all()
            and (not group or abs(x[group].sum() - 1) <= 1e-6)
            and x.sum() <= limits.total + 1e-6 * max(1.0, np.abs(x).sum())
            and (limits.most is None or self.changes(x) <= limits.most)
        )

    def changes(self, x: Array) -> int:
        """How many features differ at all; a one-hot group counts once."""
        changed, group = x != self.x0, [*self.case.limits.group]
        return int(changed.sum() - max(0, changed[group].sum() - 1))

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Bounds, locks and directions together, those of all rows of a group."""
        limits, shifts = self.case.limits, [one.shift for one in self.scenarios]
        low = np.max([limits.lower - shift for shift in shifts], axis=0)
        high = np.min([limits.upper - shift for shift in shifts], axis=0)
        low = np.where(limits.fixed | limits.rise, self.x0, low)
        return low, np.where(limits.fixed | limits.fall, self.x0, high)
