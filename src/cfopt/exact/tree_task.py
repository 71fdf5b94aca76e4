"""A task with a tree ensemble, as cells and cuts: sums of leaves that must not exceed limits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.exact_task import NORMS
from cfopt.exact.geometry import Tree
from cfopt.exact.inequalities import Inequalities
from cfopt.exact.tree_limits import TreeLimits
from cfopt.pipeline import Adapted, PerItem, Pipeline, Predictor
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.question.quantifier import Quantifier
from cfopt.trees.boxes import BoxTree
from cfopt.trees.cells import Allowed, Cells, edges_of
from cfopt.trees.predictor import TreePredictor

#: How many roundings of its precision a sum of leaves may be off by, as a fraction of its terms.
SUMS = 8
#: The same for sums in float64, generously.
_ROUNDING = 1e-9


def trees_of(predictor: Predictor) -> TreePredictor | None:
    """The trees that searches work on, if a predictor is a tree ensemble."""
    if isinstance(predictor, PerItem):
        return predictor.trees
    found = predictor.translation if isinstance(predictor, Adapted) else predictor
    return found if isinstance(found, TreePredictor) else None


class TreeTask(Inequalities):
    """Each row's cells, and the criterion as cuts `<costs, weight> <= limit`.

    A cut holds wherever verification would call a context valid: what it grants is part of the
    limit. Everything is in float64 on the host.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        trees = trees_of(task.predictor)
        assert trees is not None  # as `refusal` has made sure
        self.ensemble = trees.ensemble
        super().__init__(task.rules)
        self.space = task.space
        self._pipeline = Pipeline(task.predictor, self.rules.problem)
        origin, domain = task.space.origin, task.space.domain
        self.shape = origin.shape[1:]
        self.norm = NORMS[type(task.space.proximity)]
        self.origin: Array = origin.flatten(1).double().cpu().numpy()
        self._dtype = np.dtype(str(origin.dtype).removeprefix("torch."))
        limits = None if domain is None else domain.limits
        self.groups = () if limits is None else limits.groups
        self._edges = edges_of(self.ensemble, self.groups, self._dtype)
        self.thresholds = self._edges.thresholds
        count = self.ensemble.num_targets
        nothing = torch.zeros((1, count), dtype=torch.float64)
        self.fixed: Array = self.rules.turned(nothing)[0].numpy()
        unit = torch.eye(count, dtype=torch.float64)
        self.per_cost: Array = self.rules.turned(unit).numpy() - self.fixed  # (n, m)
        low, high = self.ensemble.ranges
        largest = np.maximum(np.abs(low), np.abs(high))
        ends = np.stack([low, high])[:, :, None] * self.per_cost
        least, most = ends.min(0).sum(0) + self.fixed, ends.max(0).sum(0) + self.fixed
        #: 1 or -1 for prices that are never below or above 0, 0 for others, `(m,)`.
        self._signs = (least >= 0).astype(np.float64) - (most <= 0)
        #: The largest that each price can be, `(m,)`.
        self.sizes: Array = largest @ np.abs(self.per_cost) + np.abs(self.fixed)

    def __len__(self) -> int:
        return len(self.origin)

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.space.latent is not None:
            return "codes are searched, not contexts (use MDMM())"
        if task.variation is not None:
            return "answers have to stand up to something, which is served for affine predictors"
        if trees_of(task.predictor) is None:
            return "the predictor is not a tree ensemble (use Auto())"
        if type(task.space.proximity) not in NORMS:
            name = type(task.space.proximity).__name__
            return f"the proximity is {name}, and needs to be L2, L1 or LInf"
        name, multiples = type(task.rules.criterion).__name__, task.rules.criterion.multiples
        if not multiples:
            return f"{name} is not given as linear inequalities"
        if task.rules.wish is not None and list(multiples.values()) != [(-1.0,)]:
            return f"{name} does not compare two decisions, as a wish needs"
        return ""

    def cells(self, row: int) -> Cells:
        """The cells that a row may move to."""
        size, domain = self.origin.shape[1], self.space.domain
        allowed = Allowed.anything(size)
        if domain is not None:
            allowed = Allowed(
                domain.lower[row].double().cpu().numpy(),
                domain.upper[row].double().cpu().numpy(),
                domain.limits.integer,
                self.groups,
            )
        units = self.space.proximity.units(size)
        power, largest = self.norm.power, self.norm.order == np.inf
        return Cells.of(self._edges, self.origin[row], units, power, allowed, largest)

    def limits(self, row: int) -> TreeLimits | None:
        """The limits on weighted sums of a row's features, if there are any."""
        domain = self.space.domain
        if domain is None or not len(domain.limits.matrix):
            return None
        units = self.space.proximity.units(self.origin.shape[1])
        return TreeLimits(domain, row, self.origin[row], units, self.norm, self._dtype)

    def floors(self, row: int, boxes: BoxTree, multipliers: dict[int, Tree]) -> Array:
        """What limits on sums show boxes to cost at least: `(N,)`."""
        limits = self.limits(row)
        inside = all(0 <= node < len(boxes) for node in multipliers)
        return limits.floors(boxes, multipliers) if limits and inside else np.zeros(len(boxes))

    def refutes(self, row: int, x: Array) -> bool:
        """Whether the criterion does not hold in a context, by the model's own prediction: `(p,)`.

        Nor does it in any other context of its cell, where all costs are the same.
        """
        rules = self.rules[torch.tensor([row])]
        prices = self.prices(self.contexts(x[None]))
        rival = rules.rival(prices)
        doubtful = rival.failures or rival.shortfall is not None
        if doubtful or (rules.calls_solver and rules.problem.audit(rival.decisions.numpy())):
            return False
        return not bool(rules.judge(prices, rival.decisions).holds[0])

    def contexts(self, x: Array) -> Tensor:
        """Contexts in the shape and dtype of the task's own: `(R, p) -> (R, ...)`."""
        return torch.from_numpy(x).reshape(-1, *self.shape).to(self.space.origin)

    def prices(self, x: Tensor) -> Tensor:
        """Turned prices as the predictor gives them: `(R, ...) -> (R, m)`."""
        with torch.no_grad():
            costs = self._pipeline.deployed(x)
        return self.rules.turned(costs.to("cpu", torch.float64))

    @property
    def rounding(self) -> float:
        """By what fraction of its terms the model's own sum may differ from that of its leaves."""
        return 2 * SUMS * self.ensemble.precision + _ROUNDING

    def cuts(
        self, row: int, quantifier: Quantifier, decisions: Array
    ) -> tuple[Array, Array, Array]:
        """Cuts on costs, base apart: weights `(K C, n)`, limits and sizes `(K C,)`.

        Arguments:
            row: the row.
            quantifier: the role of the decisions.
            decisions: feasible ones, `(K, m)`.
        """
        directions = self.directions(row, quantifier, decisions)
        terms = self._terms(row, quantifier, decisions)
        # A fraction of the terms |price_j| is granted: of prices of one sign it is linear in them,
        # of others it is at most that of the largest.
        signed = TOLERANCE * self._signs * terms
        granted = TOLERANCE * terms @ np.where(self._signs == 0, self.sizes, 0.0)
        size = terms @ self.sizes
        if not self.rules.problem.ranks_decisions:
            granted += FEASIBILITY_TOLERANCE * size
        # The library itself may add its leaves in single precision.
        granted += SUMS * self.ensemble.precision * size
        granted += self.rules.rounding * self.largest[row] * terms.sum(axis=1)
        eased = directions - signed
        weights: Array = eased @ self.per_cost.T
        constant = eased @ self.fixed + weights @ self.ensemble.base
        return weights, granted - constant, np.maximum(size, np.finfo(np.float64).tiny)

    def _terms(self, row: int, quantifier: Quantifier, decisions: Array) -> Array:
        """Multiples of each |price| that verification compares at most: `(K, m) -> (K C, m)`.

        They are those of the rival's direction `a y + end`. Where every decision counts the rival
        is the best one, which is not known here. With prices >= 0 it costs no more than the given
        one; with prices <= 0 it is worth no more than the end, but for the tolerance, or the
        criterion would not hold; otherwise it has entries as large as any decision.
        """
        sizes, one_sign = np.abs(decisions), self._positive
        if quantifier is not Quantifier.EVERY or (one_sign and (self._signs > 0).all()):
            return self.largest_terms(row, quantifier, sizes)
        if one_sign and (self._signs < 0).all():
            alone = self.largest_terms(row, quantifier, np.zeros_like(sizes))
            return 2.001 * alone  # the end, and as much again with what is granted
        return self.largest_terms(
            row, quantifier, np.full_like(sizes, self.largest_entry(row, decisions))
        )

    @cached_property
    def _positive(self) -> bool:
        """Whether no entry of a decision is negative."""
        return bool((self.rules.problem.column_bounds()[0] >= 0).all())

    @cached_property
    def largest(self) -> Array:
        """The largest price of each row, anywhere or at the origin: `(B,)`."""
        here = np.full(len(self), self.sizes.max(initial=0.0))
        size = self.rules.size
        return here if size is None else np.maximum(here, size.double().cpu().numpy())
