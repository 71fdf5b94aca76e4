"""One row and its edits: what each does alone, and what they do together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.engine.rules import Rules
from cfopt.engine.task import Evaluation, Task
from cfopt.exact.affine import AffineMap
from cfopt.exact.inequalities import Inequalities
from cfopt.exact.verify import verify
from cfopt.search.edits.cover import Cover, cheapest_cover
from cfopt.search.edits.fewest import fewest
from cfopt.search.edits.places import Edit, Places
from cfopt.search.incumbents import Incumbents

#: How many numbers of edited contexts are held at once.
_NUMBERS_AT_ONCE = 4_000_000
#: How often edits are chosen again, against another decision, before something is predicted.
_CUTS = 40
#: How far inside its limits a cut is aimed at, as a fraction of what the criterion compares.
_INSIDE = 1e-4
#: By which fractions of a typical price factual decisions are made more expensive, to see what
#: comes next where one decision is enough.
_DISCOURAGED = (0.0, 0.1, 0.3, 1.0, 3.0)


class EditedRow:
    """The search for edits of one row.

    Arguments:
        task: a task of one row, among contexts.
        places: where edits can go.
        parts: what can be put there, of each kind, `(K, ...)`.
        nearest: how many edits the distance of the largest one counts for.
        adding_up: the predictor, if effects of edits are known to add up.
    """

    def __init__(
        self,
        task: Task,
        places: Places,
        parts: Tensor,
        nearest: float,
        adding_up: AffineMap | None = None,
    ) -> None:
        self.task, self._places, self._parts = task, places, parts
        self._adding_up = adding_up
        self.origin = task.space.origin[0]
        self.best = self._nothing()
        self.edits: list[Edit] = []
        self.rounds = self.solves = self.passes = 0
        self._nearest = nearest
        #: How many edits are needed at the least, as far as that is proved; inf if none do.
        self.fewest = 0.0

    def run(self, attempts: int) -> None:
        """Choose, predict, correct; then take back what is not needed."""
        here = self._look([])
        self._candidates(here)
        if not len(self._place):
            return
        base, inside = _host(here.prices[0]), _INSIDE
        rivals = [here.rival[0]]
        self._bound(base, rivals)
        if self.fewest > self._most:
            return
        unit = float(self.task.rules.compared(here.prices, here.rival)[0])
        for _ in range(attempts):
            if self.task.late:
                return
            self.rounds += 1
            cover = self._choose(base, inside * unit, rivals, here)
            if cover is None:
                return
            edits = self._of(cover.chosen)
            seen = self._look(edits)
            if bool(seen.holds[0]) and self._verified(edits):
                self._keep(edits)
                self._bound(_host(here.prices[0]), rivals)
                return
            # Effects did not quite add up: let the sum agree with what was seen, and aim deeper.
            base = _host(seen.prices[0]) - self._effect[cover.chosen].sum(axis=0)
            inside = 2 * inside
            rivals.append(seen.rival[0])

    def proved(self) -> str:
        """What is known about answers with fewer edits, after a semicolon, or ""."""
        if self.fewest == len(self.edits):
            return "; no fewer are enough"
        return f"; at least {self.fewest:g} are needed" if self.fewest > 1 else ""

    def why_not(self) -> str:
        """Why there is no answer; "" if time is up."""
        if self.fewest == np.inf:
            return "no edits of these kinds are enough, which is proved"
        if self.fewest > self._most:
            return f"at least {self.fewest:g} edits are needed, which is proved"
        return "" if self.task.late else "no edits that were tried are enough"

    @property
    def _most(self) -> int:
        """How many edits there may be."""
        domain, places = self.task.space.domain, len(self._places.names)
        most = None if domain is None else domain.limits.max_changes
        return places if most is None else most

    def _bound(self, prices: Array, rivals: list[Tensor]) -> None:
        """Prove how many edits are needed, where effects are known to add up.

        Arguments:
            prices: without edits, `(m,)`.
            rivals: decisions that were met.
        """
        if self._adding_up is None:
            return
        rules, known = self.task.rules, self._adding_up
        met = np.stack([_host(rival) for rival in rivals])
        # A decision that is not feasible proves nothing.
        met = np.delete(met, list(rules.problem.audit(met)), axis=0)
        seen = torch.cat([self.origin[None], self._parts.to(self.origin)])
        terms = np.abs(known.weight) @ _host(seen.flatten(1).abs().amax(0)) + np.abs(known.bias)
        size = max(float(terms.max()), float(np.abs(prices).max()))
        asked = Inequalities(rules)
        self.fewest = fewest(asked, prices, self._effect, self._place, met, size)
        if self.edits and self.fewest > len(self.edits):
            self.fewest = 0.0  # the answer refutes it: effects did not add up after all

    def _candidates(self, here: Evaluation) -> None:
        """Every single edit that is allowed and changes something, with its effect on prices."""
        domain, flat = self.task.space.domain, self.origin.flatten()
        edits, changes = [], []
        parts = self._parts.flatten(1).to(flat)
        kept = torch.ones_like(parts, dtype=torch.bool)
        if domain is not None:
            kept = torch.from_numpy(domain.within(_host(parts))).to(kept)
        for place in range(len(self._places.names)):
            mask = self._places.entries(place)
            for kind, part in enumerate(parts):
                if not bool(kept[kind][mask].all()):
                    continue
                if not torch.equal(part[mask], flat[mask]):
                    edits.append((place, kind))
        at_once = max(1, _NUMBERS_AT_ONCE // flat.numel())
        effects = []
        for first in range(0, len(edits), at_once):
            some = edits[first : first + at_once]
            x = torch.stack([self._places.put(self.origin, self._parts, [one]) for one in some])
            with torch.no_grad():
                effects.append(_host(self.task.prices(x) - here.prices))
            many = self.task[torch.zeros(len(some), dtype=torch.long)]
            changes.append(_host(many.space.proximity.evaluate(x, many.space.origin)[0]))
        self.passes += len(edits)
        self._edits = edits
        self._place = np.array([place for place, _ in edits], dtype=np.intp)
        size = here.prices.shape[1]
        self._effect = np.concatenate(effects) if effects else np.zeros((0, size))
        distance = np.concatenate(changes) if changes else np.zeros(0)
        self._price = 1.0 + self._nearest * distance / max(distance.max(initial=0.0), 1e-300)

    def _choose(
        self, base: Array, inside: float, rivals: list[Tensor], here: Evaluation
    ) -> Cover | None:
        """The cheapest edits if effects add up, with the decisions that the solver calls for."""
        rules, found = self.task.rules, None
        some = bool(rules.one_suffices(here.prices, here.rival)[0])
        if some and len(rivals) == 1:
            rivals.extend(self._looked_around(here))
        for _ in range(_CUTS):
            limits = self._cuts(base, rivals)
            cuts = range(len(limits[0]))
            choices = [slice(k, k + 1) for k in cuts] if some else [slice(None)]
            covers = [self._cover(limits[0][one], limits[1][one] - inside) for one in choices]
            known = [cover for cover in covers if cover is not None]
            if not known:
                return None
            found = min(known, key=lambda cover: cover.price)
            prices = base + self._effect[found.chosen].sum(axis=0)
            if base.min() >= 0:
                prices = np.maximum(prices, 0.0)
            turned = torch.from_numpy(prices[None]).to(here.prices)
            rival = rules.rival(turned).decisions[0]
            self.solves += int(rules.calls_solver)
            if any(torch.equal(rival, other) for other in rivals):
                break
            rivals.append(rival)
        return found

    def _cover(self, normals: Array, limits: Array) -> Cover | None:
        effect = normals @ self._effect.T
        return cheapest_cover(self._price, self._place, effect, limits, self._most)

    def _cuts(self, base: Array, rivals: list[Tensor]) -> tuple[Array, Array]:
        """`<base + effects, d> <= 0` for each decision, as normals `(C, m)` and limits `(C,)`."""
        rules: Rules = self.task.rules[torch.zeros(len(rivals), dtype=torch.long)]
        decisions = torch.stack(rivals)
        prices = torch.from_numpy(base).to(decisions).expand_as(decisions)
        directions = _host(rules.direction(prices, decisions))
        directions = directions[np.abs(directions).max(axis=1) > 0]  # the alternative itself
        return directions, -(directions @ base)

    def _looked_around(self, here: Evaluation) -> list[Tensor]:
        """Decisions that make less and less use of the factual one."""
        rules = self.task.rules
        used = rules.factual.abs() / rules.factual.abs().amax(1, keepdim=True).clamp(min=1e-12)
        size = here.prices.abs().mean(1, keepdim=True)
        found = []
        for weight in _DISCOURAGED:
            found.append(rules.optimum(here.prices + weight * size * used).decisions[0])
            self.solves += 1
        return found

    def _keep(self, edits: list[Edit]) -> None:
        """Take back each edit that is not needed, and keep the rest."""
        for one in sorted(edits):
            fewer = [other for other in edits if other != one]
            if bool(self._look(fewer).holds[0]) and self._verified(fewer):
                edits = fewer
        self.edits = sorted(edits)
        # Others may be as near in this proximity, and were not verified.
        self.best = self._nothing()
        self._look(self.edits)

    def _nothing(self) -> Incumbents:
        return Incumbents(self.task.space.origin, torch.float64)

    def _verified(self, edits: list[Edit]) -> bool:
        """Whether edits stand up to verification."""
        x = self._places.put(self.origin, self._parts, edits)[None]
        return bool(verify(self.task, x).valid[0])

    def _look(self, edits: list[Edit]) -> Evaluation:
        x = self._places.put(self.origin, self._parts, edits)[None]
        seen = self.task.look(x)
        self.passes += 1
        self.solves += int(self.task.rules.calls_solver)
        excess = torch.where(seen.allowed, seen.h, torch.inf)
        self.best.update(None, x, seen.loss, excess, seen.holds)
        return seen

    def _of(self, chosen: Indices) -> list[Edit]:
        return [self._edits[k] for k in chosen.tolist()]


def _host(values: Tensor) -> Array:
    found: Array = values.detach().double().cpu().numpy()
    return found
