"""A task as geometry, whatever its predictor: changes u, directions of prices, limits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.exact.geometry import Euclidean, Grid, Largest, Norm, Support, System, Taxicab
from cfopt.exact.inequalities import Inequalities
from cfopt.question.proximity import L1, L2, LInf, Proximity
from cfopt.question.quantifier import Quantifier

#: With limits on x the masters are dense in the features.
_MOST_LIMITED = 2000
#: The norm of a scaled change that each proximity is.
NORMS: dict[type[Proximity], Norm] = {L2: Euclidean(), L1: Taxicab(), LInf: Largest()}
#: Why a task with a wish is not one about inequalities.
OPEN_PLAN = "a wish leaves the plan open (use Wishes() or Auto())"


class ExactTask(Inequalities):
    """Each row's change `u = (x - x0) / scale`, so that the proximity is a plain norm of u.

    The criterion is a list of `<prices, d> <= 0`. Everything is in float64 on the host.

    Arguments:
        task: a task that `limitation` accepts.
        scenarios: the number of predictors whose prices stand side by side.
    """

    def __init__(self, task: Task, scenarios: int = 1) -> None:
        super().__init__(task.rules, scenarios)
        self.space = task.space
        self.shape = task.space.origin.shape[1:]
        self.origin: Array = task.space.origin.flatten(1).double().cpu().numpy()
        self.scale = task.space.proximity.units(self.origin.shape[1])
        self.norm = NORMS[type(task.space.proximity)]
        self._box: tuple[Array, Array] | None = None
        self._sums: tuple[Array, Array, Array] | None = None
        self._supports: dict[int, Support] = {}
        if (domain := task.space.domain) is not None:
            # The origin is allowed, whatever rounding says.
            lower = domain.lower.double().cpu().numpy() - self.origin
            upper = domain.upper.double().cpu().numpy() - self.origin
            self._box = (
                np.minimum(lower / self.scale, 0.0),
                np.maximum(upper / self.scale, 0.0),
            )
            self._sums = domain.sums()

    def __len__(self) -> int:
        return len(self.origin)

    @staticmethod
    def limitation(task: Task) -> str:
        """Why a task cannot be treated exactly, whatever its predictor, or ""."""
        proximity = type(task.space.proximity)
        if proximity not in NORMS:
            return f"the proximity is {proximity.__name__}, and needs to be L2, L1 or LInf"
        size = task.space.origin[0].numel()
        if task.space.domain is not None and size > _MOST_LIMITED:
            return f"{size} features with limits are more than {_MOST_LIMITED}; use MDMM()"
        if task.rules.wish is not None:
            return OPEN_PLAN
        if not task.rules.criterion.multiples:
            return f"{type(task.rules.criterion).__name__} is not given as linear inequalities"
        return ""

    def ray_directions(self, rays: Array) -> Array:
        """The same for every decision far out along rays: `(K, m) -> (K C, m)`."""
        multiples = np.array(self.multiples(Quantifier.EVERY))
        return (multiples[:, None] * rays[:, None]).reshape(-1, rays.shape[1])

    @property
    def exact_decisions(self) -> bool:
        """Whether decisions are known without error: binary or listed ones are."""
        return self.rules.problem.ranks_decisions

    def system(self, row: int) -> System:
        """What a row's change may be."""
        if self._box is None or self._sums is None:
            return self._unlimited
        system = System.box(self._box[0][row], self._box[1][row])
        matrix, least, most = self._sums
        if len(matrix):
            here = matrix @ self.origin[row]
            # Rounding must not exclude u = 0, which is allowed.
            lower, upper = np.minimum(least - here, 0.0), np.maximum(most - here, 0.0)
            system = system.with_rows(matrix * self.scale, lower, upper)
        support = self.support(row)
        return system if support is None else system.counting(support)

    @cached_property
    def unbounded(self) -> bool:
        """Whether features are not limited, but for which of them may change together."""
        domain = self.space.domain
        if domain is None or self._box is None or self._sums is None:
            return True
        open_ended = np.isinf(self._box[0]).all() and np.isinf(self._box[1]).all()
        return bool(open_ended) and not len(self._sums[0]) and not domain.discrete

    @cached_property
    def _unlimited(self) -> System:
        size = self.origin.shape[1]
        return System.box(np.full(size, -np.inf), np.full(size, np.inf))

    def support(self, row: int) -> Support | None:
        """Which features of a row may change together, if that is limited."""
        domain = self.space.domain
        if domain is None or not domain.counted:
            return None
        if row not in self._supports:
            spared = domain.spared[row] if domain.spared else ()
            limits = domain.limits
            self._supports[row] = Support.of(limits.unit, limits.max_changes, spared)
        return self._supports[row]

    def grid(self, row: int) -> Grid | None:
        """Which entries of a row's context are whole numbers."""
        domain = self.space.domain
        if domain is None or not domain.discrete:
            return None
        return Grid(self.origin[row], self.scale, domain.limits.integer)

    def contexts(self, rows: list[int], u: Array) -> Tensor:
        """The contexts after changes, whole numbers made whole: `(R, p) -> (R, ...)`."""
        origin, domain = self.space.origin, self.space.domain
        flat = torch.from_numpy(self.origin[rows] + self.scale * u)
        x = flat.reshape(-1, *self.shape).to(origin)
        # What did not move keeps its last bit.
        still = torch.from_numpy(u == 0).reshape(x.shape).to(x.device)
        x = torch.where(still, origin[rows], x)
        if domain is not None:
            domain = domain[torch.tensor(rows, dtype=torch.long, device=x.device)]
            x = domain.clamp(x)
            x = domain.round(x) if domain.discrete else x
        return x
