"""The nearest answer to a row, by enumeration where the predictor has pieces, else by sampling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from benchmarks.hostile.instances import Array
from benchmarks.hostile.pieces import Piece
from benchmarks.hostile.polyhedra import length, nearest_point, steepest
from benchmarks.hostile.truth import STRICT, Truth

#: Points drawn at a time, and how often; combinations of pieces, and plans of each, at most.
_DRAWN, _ROUNDS, _MOST, _PLANS = 600, 8, 300, 200
#: By what the factual plan costs more than the best in our own answers to `Epsilon`.
_CLEARLY = 1e-4
#: Drawn points show no more than themselves: they have to hold in a ball that is so much larger.
_WIDER = 1.02


class Nearest:
    """The nearest point that holds beyond doubt: its distance, inf if there is none, and itself."""

    def __init__(self, truth: Truth, by_drawing: bool = False) -> None:
        self.truth, self.distance, self.x = truth, np.inf, None
        self._try(truth.x0, _WIDER)
        if self.distance == 0:
            return
        combinations = [] if by_drawing else self._combinations()
        self._by_pieces(combinations)
        listed = truth.lattice is not None and not by_drawing
        if listed:
            self._by_cells()
        if truth.case.radius or not (listed or combinations):
            self._by_drawing()

    def _try(self, x: Array, share: float = 0.9999) -> None:
        truth, distance = self.truth, self.truth.loss(x)
        if not (distance < self.distance and truth.allows(x) and truth.holds(x, STRICT)):
            return
        if truth.withstands(x, STRICT, share):
            self.distance, self.x = distance, x

    def _choices(self) -> list[Array]:
        """Values of what is counted, chosen or kept; NaN for features that may move."""
        truth, limits, (low, high) = self.truth, self.truth.case.limits, self.truth.box
        counted = [*limits.whole, *limits.group]
        free = [j for j in range(len(low)) if j not in counted and low[j] < high[j]]
        ranges = [np.arange(low[j], high[j] + 1) for j in limits.whole]
        found = []
        for whole, group in itertools.product(
            itertools.product(*ranges), np.eye(2) if limits.group else [()]
        ):
            start = truth.x0.copy()
            start[counted] = [*whole, *group]
            left = len(free) if limits.most is None else limits.most - truth.changes(start)
            for some in itertools.combinations(free, min(left, len(free))) if left >= 0 else ():
                values = start.copy()
                values[[*some]] = np.nan
                found.append(values)
        return found

    def _by_cells(self) -> None:
        """The nearest point of every cell whose costs meet the criterion."""
        truth = self.truth
        first, last = truth.lattice
        right = truth.met(np.clip(truth.x0, first, last), STRICT).any(axis=1)
        first, last = first[right], last[right]
        low, high = np.maximum(first, truth.box[0]), np.minimum(last, truth.box[1])
        for values in self._choices():
            moves = np.isnan(values)
            # Trees read float32 numbers: what is kept may be rounded into its cell.
            kept = np.float64(np.float32(values))
            possible = np.where(moves, low <= high, (kept >= first) & (kept <= last)).all(axis=1)
            points = np.where(moves, np.clip(truth.x0, low, high), values)[possible]
            for k in np.argsort(length((points - truth.x0) / truth.units, truth.case.norm))[:20]:
                self._try(points[k])
                if points[k].sum() > truth.case.limits.total:
                    self._within(values, low[possible][k], high[possible][k], (), (), ())

    def _combinations(self) -> list[tuple[tuple[int, Piece], ...]]:
        """A piece of each scenario that has to hold; none where they are unknown or too many."""
        truth = self.truth
        each = [one.pieces for one in truth.scenarios]
        if any(one is None for one in each):
            return []
        found: list[tuple[tuple[int, Piece], ...]] = []
        for some in itertools.combinations(range(len(each)), truth.needed):
            found += itertools.product(*([(s, piece) for piece in each[s]] for s in some))
        exact = not truth.case.radius or len(found) == 1
        return found if len(found) <= _MOST and exact else []

    def _by_pieces(self, combinations: list[tuple[tuple[int, Piece], ...]]) -> None:
        """The nearest point of every combination of pieces and plans."""
        truth = self.truth
        branches = [self._branches(s) for s in range(len(truth.scenarios))]
        for values, pieces in itertools.product(self._choices(), combinations):
            of_each = [branches[s] for s, _ in pieces]
            every = zip(*of_each, strict=True) if truth.joint else itertools.product(*of_each)
            for one in itertools.islice(every, _PLANS):
                d, e = zip(*one, strict=True)
                self._within(values, *truth.box, [piece for _, piece in pieces], d, e)

    def _branches(self, s: int) -> list[tuple[Array, Array]]:
        """Directions d and numbers e: all `<prices, d> <= -e` of any pair are enough."""
        case, y0 = self.truth.case, self.truth.factual[s]
        signs = (case.margin, -case.margin) if case.margin else (0.0,)
        found = []
        if not case.epsilon:
            for plan in self.truth.plans(s):
                d = plan - self.truth.rivals(s, plan)
                d = np.concatenate([d + sign * plan for sign in signs])
                found.append((d, np.zeros(len(d))))
            return found
        more, less = 1 + case.epsilon, 1 - case.epsilon
        for y in case.listed[(case.listed != y0).any(axis=1)]:
            # The best value is reached by some y; a negative multiple of it bounds every y.
            every = y[None] if less >= 0 else case.listed
            d = np.concatenate([more * y[None], less * every]) - y0
            d = np.concatenate([d + sign * y0 for sign in signs])
            found.append((d, np.zeros(len(d))))
            # With v = 0 the factual plan has to cost more, which is no closed set.
            found.append((np.vstack([d, y - y0]), np.append(np.zeros(len(d)), _CLEARLY)))
        return found

    def _within(
        self,
        values: Array,
        low: Array,
        high: Array,
        pieces: Sequence[Piece],
        directions: Sequence[Array],
        offsets: Sequence[Array],
    ) -> None:
        """Try the nearest point between bounds, in some pieces, with some directions."""
        truth, case = self.truth, self.truth.case
        free = np.isnan(values)
        base, eye = np.where(free, truth.x0, values), np.eye(len(values))
        rows, limit = [eye, -eye, np.ones_like(eye[:1])], [high, -low, [case.limits.total]]
        for piece, d, e in zip(pieces, directions, offsets, strict=True):
            g = d @ piece.weight
            worst = case.radius * truth.blur * g
            rows += [piece.rows, g]
            limit += [
                piece.limit,
                -d @ piece.bias - e - (worst * steepest(worst, case.ball)).sum(axis=1),
            ]
        g, h = np.concatenate(rows), np.concatenate(limit)
        g, h = g[np.isfinite(h)], h[np.isfinite(h)]
        scaled = (g * truth.units)[:, free]
        u = nearest_point(scaled, h - g @ base, case.norm, self.distance)
        if u is not None:
            x = base.copy()
            x[free] += truth.units[free] * u
            self._try(np.clip(x, low, high) if free.any() else x)

    def _by_drawing(self) -> None:
        """Drawn around the context, then around the best point so far, closer each time."""
        truth, case = self.truth, self.truth.case
        rng = np.random.default_rng([case.seed, case.number, truth.row, 1])
        choices, (low, high) = np.array(self._choices()), truth.box
        for turn in range(_ROUNDS):
            start, reach = (truth.x0, 4.0) if self.x is None else (self.x, self.distance / 2**turn)
            values = choices[rng.integers(len(choices), size=_DRAWN)]
            sizes = reach * rng.random((_DRAWN, 1)) ** 2
            moved = start + truth.units * sizes * rng.normal(size=values.shape)
            # Some on the way back to the context.
            moved = truth.x0 + (moved - truth.x0) * rng.choice([1.0, 1.0, 0.9, 0.7], (_DRAWN, 1))
            points = np.where(np.isnan(values), np.clip(moved, low, high), values)
            points = points[truth.met(points, STRICT).any(axis=1)]
            losses = length((points - truth.x0) / truth.units, case.norm)
            for k in np.argsort(losses)[: 20 if case.radius else 5]:
                self._try(points[k], _WIDER)
