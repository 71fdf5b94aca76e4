"""Explanations of predictors that have no gradient: by looking at many points of each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Moving, Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.search.base import Search, check_whole
from cfopt.search.climbers import BUNDLES, COARSE, FINE, Climbers, judge, pull_home
from cfopt.search.cost_model import CostModels
from cfopt.search.draws import DRAWN, Draws
from cfopt.search.landscape import Landscape
from cfopt.search.reference import JudgedReferences, nearest_first, nearest_verified

#: How many valid points of a row are pulled home at first.
_STARTS = 8
#: How many numbers of candidates are held at once by the rows that are worked on together.
_NUMBERS_AT_ONCE = 16_000_000
#: The radii in which points are sampled while none is valid, in units of the features.
_RADII = tuple(2.0**k for k in range(-4, 11))
#: What each doubling of a sample's distance counts against how far it is from valid.
_NEARNESS = 0.02
#: How many rounds of random moves lead to nothing before a row comes to rest.
_PATIENCE = 25
#: A round that leaves more than this fraction of the loss has led to nothing.
_HARDLY = 0.999
#: The parts of the budget after which a row without a valid point gives up, and after which only
#: the last pull home is left.
_GIVE_UP, _LAST_PULL = 0.8, 0.9
#: The parts of the budget until which affine models of the costs are fitted, before and after
#: points are pulled home.
_MODELS = (0.4, 0.7)


@registry.searches.register
@dataclass(frozen=True)
class DerivativeFree(Search):
    """Looks at many points, and needs nothing but the costs there: it serves any predictor.

    Where contexts are known that satisfy the criterion, it begins with the nearest of them; else
    with random points in growing radii and, where none is valid, with moves that make the miss
    smaller. Affine models of the costs, fitted to points around the best one, are explained
    exactly, and their answers tried. Valid points are pulled towards the factual one, altogether
    and feature by feature. From the best of them random moves follow, each to a point that would be
    nearer; what is found is pulled home again. Where contexts must be like known ones, what is
    missing in that adds to the miss. The candidates of all rows are predicted in one
    call, and solved in one.

    Arguments:
        evaluations: about how many points of each row are judged at most.
        seed: the seed of the random moves, which are the same for every row.
    """

    evaluations: int = 3000
    seed: int = 0
    heeds_surroundings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self, evaluations=1, seed=0)

    def knowing(self, reference: Tensor) -> DerivativeFree:
        """The same from known contexts, `(N, ...)`."""
        return _Informed(self.evaluations, self.seed, contexts=reference)

    def steps(self, task: Task) -> Iterator[Progress]:
        """As many rows together as memory allows, each until it is at rest."""
        known = self._judged_references(task)
        each = _STARTS * (BUNDLES + 1) * task.space.home[0].numel()
        step, left = 0, len(task)
        for rows in torch.split(task.row_numbers, max(1, _NUMBERS_AT_ONCE // each)):
            run = _Run(self, task[rows], known)
            for moving in run.moves():
                step += 1
                yield Progress(step, left, len(task), moving=moving.of(rows))
            step, left = step + 1, left - len(rows)
            yield Progress(step, left, len(task), replace(run.points(), rows=rows))

    def _judged_references(self, task: Task) -> JudgedReferences | None:
        return None


@dataclass(frozen=True, eq=False)
class _Informed(DerivativeFree):
    """The search with known contexts, `(N, ...)`."""

    contexts: Tensor = field(repr=False, kw_only=True)

    def _judged_references(self, task: Task) -> JudgedReferences | None:
        usable = self.contexts.flatten(1).isfinite().all(1)
        task = Landscape(task, 1).task
        return JudgedReferences(task, self.contexts[usable].to(task.space.origin))


class _Run:
    """The points of some rows, and what is done with them."""

    def __init__(
        self, settings: DerivativeFree, task: Task, known: JudgedReferences | None
    ) -> None:
        self.settings, self.task, self.known = settings, task, known
        self.land = Landscape(task, settings.evaluations)
        home = self.land.home
        nothing = torch.full((2, len(task)), torch.inf, dtype=torch.float64, device=home.device)
        self.best = Climbers(task.row_numbers, home.clone(), *nothing)
        self._models = CostModels(self.land, self._generator(5))
        #: Verified references by row, for what does not stand verification.
        self.safe: dict[int, Tensor] = {}
        self.rounds = torch.zeros_like(self.best.rows)

    def moves(self) -> Iterator[Moving]:
        """Find something valid, pull it home, and look around."""
        starts = [self._look(self.best.rows, self.task.space.beginning.detach().flatten(1))]
        if not self.land.blocks:
            return
        starts += self._references()
        for found in self._sample():
            starts.append(found)
            yield self._moving(self._lost())
        for _ in self._model(self.best.rows, _MODELS[0]):
            yield self._moving(self.best.rows)
        for _ in self._descend():
            yield self._moving(self._lost())
        climbers = Climbers.joined([*starts, self.best]).valid()
        climbers = climbers[climbers.best(_STARTS)]
        for _ in self._pull(climbers, 1):
            yield Moving(climbers.rows, self._shaped(climbers.at))
        for _ in self._model(self.best.valid().rows, _MODELS[1]):
            yield self._moving(self.best.valid().rows)
        for rows in self._wander():
            yield self._moving(rows)
        found = self.best.valid()
        for _ in pull_home(self.land, found, FINE, self._generator(3)):
            yield Moving(found.rows, self._shaped(found.at))
        self._offer(found)

    def points(self) -> Points:
        """All rows as they ended; what does not stand verification gives way to a reference."""
        task, x, valid = self.task, self._shaped(self.best.at), self.best.miss == 0
        claimed = valid.nonzero().flatten()
        if len(claimed):
            with torch.no_grad():
                there = task[claimed].space.context(x[claimed])
            valid[claimed] = verify(task[claimed], there).valid.to(valid.device)
        for row, context in self.safe.items():
            if not valid[row]:
                x[row], valid[row] = context, True
        judged, failures = self.land.evaluations, self.land.failures
        return Points(
            rows=self.best.rows,
            x=x,
            found=valid,
            steps=self.rounds,
            solves=judged * int(task.rules.calls_solver),
            passes=judged,
            notes=tuple("" if ok else failures.get(i, "") for i, ok in enumerate(valid.tolist())),
            methods=("derivative-free",) * len(task),
        )

    def _references(self) -> list[Climbers]:
        """The nearest known contexts of each row that are allowed and seem valid."""
        task, known, rows = self.land.task, self.known, self.best.rows
        if known is None:
            return []
        numbers: list[int] = []
        owners: list[int] = []
        for row in rows.tolist():
            nearest = nearest_first(task[rows[row : row + 1]], known)
            picked = [k for k, _ in zip(nearest, range(_STARTS), strict=False)]
            numbers, owners = numbers + picked, owners + [row] * len(picked)
        if not numbers:
            return []
        points = known.contexts[numbers]
        if task.space.latent is not None:
            with torch.no_grad():
                points = task.space.latent.model.encode(points)
        else:
            chosen = enumerate(nearest_verified(task, known))
            self.safe = {row: known.contexts[k] for row, k in chosen if k is not None}
        return [self._look(torch.tensor(owners, device=rows.device), points.flatten(1))]

    def _sample(self) -> Iterator[Climbers]:
        """Judge random points in growing radii, until a row has a valid one."""
        generator = self._generator(0)
        for radius in _RADII:
            draws = Draws.of(self.land, generator)
            rows = self._lost()
            rows = rows[self.land.affords(rows, _GIVE_UP)]
            if not len(rows):
                return
            home = self.land.home[rows][:, None]
            wide = rows.repeat_interleave(DRAWN)
            points = draws.around(home, home.new_full((len(rows), DRAWN), radius)).flatten(0, 1)
            self.rounds[rows] += 1
            penalty = _NEARNESS * torch.tensor(1 + radius).log2().item()
            yield self._look(wide, self.land.repair(wide, points), penalty)

    def _descend(self) -> Iterator[None]:
        """Random moves that make the miss of rows without a valid point smaller."""
        rows = self._lost()
        self.best.put(rows, self._judged(rows, self.best.at[rows]))  # without the penalty
        generator, idle = self._generator(4), torch.zeros_like(rows)
        last = torch.zeros_like(self.best.at[rows])
        while True:
            draws = Draws.of(self.land, generator)
            going = (self.best.miss[rows] > 0) & (idle < _PATIENCE)
            going &= self.land.affords(rows, _GIVE_UP)
            rows, idle, last = rows[going], idle[going], last[going]
            if not len(rows):
                return
            part = self.best[rows]
            way = (part.at - self.land.home[rows]) / self.land.unit
            far = torch.linalg.vector_norm(way, dim=1).clamp(min=1.0)
            points = draws.around(part.at[:, None], 2 * far[:, None] * draws.length)
            # What has helped may help again.
            again = part.at[:, None] + last[:, None] * last.new_tensor([1.0, 3.0])[:, None]
            points, seen = judge(self.land, part, torch.cat([points, again], 1))
            before = part.at.clone()
            better = part.take(points, seen)
            last = torch.where(better[:, None], part.at - before, last / 2)
            idle = torch.where(better, 0, idle + 1)
            self.best.put(rows, part)
            self.rounds[rows] += 1
            yield

    def _wander(self) -> Iterator[Tensor]:
        """Random moves of the best points to nearer ones; what is valid there is pulled home."""
        generator, rows = self._generator(2), self.best.valid().rows
        idle = torch.zeros_like(rows)
        while True:
            draws = Draws.of(self.land, generator)
            going = (idle < _PATIENCE) & self.land.affords(rows, _LAST_PULL)
            rows, idle = rows[going], idle[going]
            if not len(rows):
                return
            part = self.best[rows]
            before = part.loss.clone()
            points, seen = judge(self.land, part, draws.nearer(part))
            moved = part.take(points, seen).nonzero().flatten()
            for _ in self._pull(part[moved], 5):
                yield rows
            hardly = self.best.loss[rows] >= _HARDLY * before
            idle = torch.where(hardly, idle + 1, 0)
            self.rounds[rows] += 1
            yield rows

    def _model(self, rows: Tensor, part: float) -> Iterator[None]:
        """Move the best points of rows to where models of the costs have their answers."""
        climbers = self.best[rows]
        for _ in self._models.move(climbers, part):
            self._offer(climbers)
            self.rounds[rows] += 1
            yield

    def _pull(self, climbers: Climbers, stage: int) -> Iterator[None]:
        """Pull points home, roughly, and keep the best."""
        for _ in pull_home(self.land, climbers, COARSE, self._generator(stage), _LAST_PULL):
            self.rounds[torch.unique(climbers.rows)] += 1
            yield
        self._offer(climbers)

    def _look(self, rows: Tensor, points: Tensor, penalty: float = 0.0) -> Climbers:
        """Judge points, and keep the best of each row; a penalty is added to those amiss."""
        judged = self._judged(rows, points)
        judged.miss[judged.miss > 0] += penalty
        self._offer(judged)
        return judged.valid()

    def _judged(self, rows: Tensor, points: Tensor) -> Climbers:
        return Climbers(rows, points, *self.land.look(rows, points))

    def _offer(self, climbers: Climbers) -> None:
        """Keep the better of what is known and of others."""
        both = Climbers.joined([self.best, climbers])
        self.best = both[both.best()]

    def _lost(self) -> Tensor:
        """The rows without a valid point."""
        return (self.best.miss > 0).nonzero().flatten()

    def _generator(self, stage: int) -> torch.Generator:
        return torch.Generator().manual_seed(8 * self.settings.seed + stage)

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.view(-1, *self.task.space.home.shape[1:])

    def _moving(self, rows: Tensor) -> Moving:
        return Moving(rows, self._shaped(self.best.at[rows]))
