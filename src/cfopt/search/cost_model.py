"""Affine models of costs, fitted to points that were judged: where they say an answer would be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from cfopt.engine.task import Task
from cfopt.search.base import Search
from cfopt.search.climbers import Climbers, judge
from cfopt.search.closed_form import ClosedForm
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.enumeration import Enumeration
from cfopt.search.landscape import Landscape

#: What explains an affine model: the first that serves the task.
_EXACT: tuple[Search, ...] = (ClosedForm(), CuttingPlane(100), Enumeration())
#: How many points a model is fitted to at most, for each feature.
_KEPT = 4
#: The fractions of the way to the model's answer, and how far beyond it as seen from home.
_TOWARDS, _BEYOND = (1.0, 0.7, 0.4, 0.2, 0.1), (1.003, 1.01, 1.03, 1.1, 1.25)
#: The lengths of the steps by which slopes are measured, as fractions of the mean change.
_REACH = (1.0, 0.3, 0.1, 0.03)
#: The fraction of the budget that slopes in all features may cost.
_MOST_FOR_SLOPES = 0.15
#: How little weight keeps slopes that nothing is known of at 0.
_RIDGE = 1e-9
#: What a round must leave at most of the loss to count.
_HARDLY = 0.999


class CostModels:
    """Moves points to where affine models of the costs have their nearest explanations.

    Around a point each block of features is moved on its own, home where it is changed. Costs there
    and at the points met before give an affine model of the costs near the point, by least squares;
    an exact search says where its nearest explanation is. Points on the way there and a little
    beyond are judged by the pipeline itself. Where none is better the slopes are measured anew, by
    shorter steps.

    Arguments:
        land: what judges.
        generator: the generator of the directions in which features move that are at home.
    """

    def __init__(self, land: Landscape, generator: torch.Generator) -> None:
        self._land = land
        self._seen: dict[int, tuple[Tensor, Tensor]] = {}
        # Drawn once, so that a row does not depend on how often others need new slopes.
        size, levels = land.home.shape[1], len(_REACH)
        sign = 2 * torch.randint(0, 2, (levels, size), generator=generator) - 1
        self._sign = sign.to(land.home)
        self._member = [
            torch.randint(0, len(group), (levels,), generator=generator).to(land.home.device)
            for group in land.groups
        ]

    @staticmethod
    def search(task: Task) -> Search | None:
        """What explains affine models of a task's costs, if anything does."""
        if task.space.latent is not None:
            return None
        model = _model(task, _layer(task.space.origin[0].numel(), task.rules.problem.num_costs))
        return next((one for one in _EXACT if not one.refusal(model)), None)

    def move(self, climbers: Climbers, part: float) -> Iterator[None]:
        """Move points, one of each row, as long as that makes them better.

        Arguments:
            climbers: the points.
            part: the fraction of the budget that may be used.
        """
        land, running = self._land, torch.arange(len(climbers), device=climbers.rows.device)
        if not len(climbers) or land.blocks > _MOST_FOR_SLOPES * land.budget:
            return
        search = self.search(land.task[climbers.rows[:1]])
        if search is None:
            return
        level = torch.zeros_like(running)
        fresh = torch.ones_like(running, dtype=torch.bool)
        while True:
            going = land.affords(climbers.rows[running], part) & (level < len(_REACH))
            running, level, fresh = running[going], level[going], fresh[going]
            if not len(running):
                return
            here = climbers[running]
            before = here.loss.clone(), here.miss.clone()
            land.watched = []
            if fresh.any():
                some = here[fresh]
                land.look(*self._design(some, level[fresh]))
            self._remember(here)
            points = torch.stack(
                [self._towards(search, here[torch.tensor([k])]) for k in range(len(here))]
            )
            here.take(*judge(land, here, points))
            self._remember(here)
            land.watched = None
            climbers.put(running, here)
            nearer = (here.miss == before[1]) & (here.loss < _HARDLY * before[0])
            better = nearer | (here.miss < _HARDLY * before[1])
            # What was measured serves once more; then shorter steps are needed.
            level = torch.where(better, level, level + fresh.long())
            fresh = ~better
            yield

    def _design(self, here: Climbers, level: Tensor) -> tuple[Tensor, Tensor]:
        """Points in which one block differs, and their rows: `(C Q, p)`."""
        land = self._land
        home = land.home[here.rows]
        change = (here.at - home) / land.unit
        reach = here.at.new_tensor(_REACH)[level]
        mean = change.square().mean(1).sqrt().clamp(min=1e-6)
        blocks = torch.arange(land.blocks, device=home.device)
        own = land.block_of == blocks[:, None]
        sign = self._sign[level]
        step = (reach * mean)[:, None] * sign * land.unit
        step = torch.where(land.whole, sign * step.abs().ceil(), step)
        back = home - here.at
        size = (back / land.unit).abs()
        worth = size > 0.1 * (reach * mean)[:, None]
        step = torch.where(worth, back * (reach[:, None] * mean[:, None] / size).clamp(max=1), step)
        step = torch.where((level == 0)[:, None] & worth, back, step)
        for group, member in zip(land.groups, self._member, strict=True):
            one = nn.functional.one_hot(member[level], len(group)).to(home)
            chosen = one - here.at[:, group]
            moved = (back[:, group] != 0).any(1, keepdim=True)
            step[:, group] = torch.where(moved, back[:, group], chosen)
        points = here.at[:, None] + step[:, None] * own
        wide = here.rows.repeat_interleave(land.blocks)
        return wide, land.repair(wide, points.flatten(0, 1))

    def _remember(self, here: Climbers) -> None:
        """Keep what was judged, the latest of each row."""
        land = self._land
        assert land.watched is not None
        if not land.watched:
            return
        rows, points, costs = (torch.cat(part) for part in zip(*land.watched, strict=True))
        land.watched = []
        most = _KEPT * (land.blocks + 1)
        for row in here.rows.tolist():
            own = rows == row
            new = points[own].double(), costs[own].double()
            old = self._seen.get(row)
            if old is not None:
                new = torch.cat([old[0], new[0]]), torch.cat([old[1], new[1]])
            self._seen[row] = new[0][-most:], new[1][-most:]

    def _towards(self, search: Search, one: Climbers) -> Tensor:
        """Points on the way to where a model of the costs has its answer: `(S, p)`."""
        land, at = self._land, one.at[0]
        home, task = land.home[one.rows[0]], land.task[one.rows]
        layer, goal = self._fitted(int(one.rows[0]), at), at
        if layer is not None:
            found = search.run(_model(task, layer)).x[0].flatten().to(at)
            goal = found if bool(found.isfinite().all()) else at
        parts, beyond = at.new_tensor(_TOWARDS)[:, None], at.new_tensor(_BEYOND)[:, None]
        return torch.cat([at + parts * (goal - at), home + beyond * (goal - home)])

    def _fitted(self, row: int, at: Tensor) -> nn.Linear | None:
        """The affine model of costs near a point, by weighted least squares; None without costs."""
        points, costs = self._seen[row]
        known = costs.isfinite().all(1)
        points, costs, unit = points[known], costs[known], self._land.unit.double()
        if not len(points):
            return None
        away = (points - at.double()) / unit
        far = away.square().sum(1)
        base = int(far.argmin())
        # Near points count most: what is far tells little of slopes here.
        weight = 1 / (far + far[far > 0].median().clamp(min=1e-12)) if (far > 0).any() else far + 1
        design = torch.cat([away, torch.ones_like(away[:, :1])], 1)
        left = design.T @ (weight[:, None] * design)
        right = design.T @ (weight[:, None] * (costs - costs[base]))
        ridge = _RIDGE * float(left.diagonal().max().clamp(min=1e-300))
        solved = torch.linalg.solve(left + ridge * torch.eye(len(left)).to(left), right)
        slopes = (solved[:-1] / unit[:, None]).T
        layer = _layer(len(at), costs.shape[1])
        with torch.no_grad():
            layer.weight.copy_(slopes)
            layer.bias.copy_(costs[base] + solved[-1] - slopes @ at.double())
        return layer.to(at)


def _layer(size: int, costs: int) -> nn.Linear:
    """An affine layer whose weights are still to be set; nothing is drawn at random for them."""
    return nn.Linear(size, costs, device="meta", dtype=torch.float64).to_empty(device="cpu")


def _model(task: Task, layer: nn.Linear) -> Task:
    """A task with an affine model in the place of its predictor."""
    model = nn.Sequential(nn.Flatten(), layer.to(task.space.origin))
    return replace(task, predictor=model, differentiable=True, recall=None)
