"""A task with a tree ensemble, as cells and cuts: sums of leaves that must not exceed limits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.engine.variation import Variation
from cfopt.exact.exact_task import NORMS
from cfopt.exact.geometry import Tree
from cfopt.exact.inequalities import Inequalities
from cfopt.exact.tree_limits import TreeLimits
from cfopt.pipeline import Adapted, PerItem, Pipeline, Predictor
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.question.quantifier import Quantifier
from cfopt.trees.boxes import BoxTree
from cfopt.trees.cells import Allowed, Cells, edges_of
from cfopt.trees.ensemble import TreeEnsemble
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


def _unserved(task: Task, variation: Variation) -> str:
    """Why answers are not searched cell by cell that have to stand up to something, or ""."""
    if variation.off_by is not None:
        return "answers have to hold around them, which is served for affine predictors"
    if not all(trees_of(one) for one in variation.predictors):
        return "a further predictor is not a tree ensemble"
    if task.rules.wish is not None:
        return "one plan has to grant the wish under every predictor"
    return ""


class TreeTask(Inequalities):
    """Each row's cells, and the criterion as cuts `<costs, weight> <= limit`.

    A cut holds wherever verification would call a context valid: what it grants is part of the
    limit. Everything is in float64 on the host.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        further = () if task.variation is None else task.variation.predictors
        predictors = (task.predictor, *further)
        trees = [found.ensemble for one in predictors if (found := trees_of(one)) is not None]
        self.ensemble = trees[0] if len(trees) == 1 else TreeEnsemble.stack(trees)
        super().__init__(task.rules, len(predictors))
        self.space = task.space
        self._pipelines = [Pipeline(one, self.rules.problem) for one in predictors]
        origin, domain = task.space.origin, task.space.domain
        self.shape = origin.shape[1:]
        self.norm = NORMS[type(task.space.proximity)]
        self.origin: Array = origin.flatten(1).double().cpu().numpy()
        self.dtype = np.dtype(str(origin.dtype).removeprefix("torch."))
        limits = None if domain is None else domain.limits
        self.groups = () if limits is None else limits.groups
        self._edges = edges_of(self.ensemble, self.groups, self.dtype)
        self.thresholds = self._edges.thresholds
        count = trees[0].num_targets
        nothing = torch.zeros((1, count), dtype=torch.float64)
        self.fixed: Array = self.rules.turned(nothing)[0].numpy()
        unit = torch.eye(count, dtype=torch.float64)
        self.per_cost: Array = self.rules.turned(unit).numpy() - self.fixed  # (n, m)
        low, high = (end.reshape(self.scenarios, count) for end in self.ensemble.ranges)
        largest = np.maximum(np.abs(low), np.abs(high)).max(axis=0)
        ends = np.stack([low.min(axis=0), high.max(axis=0)])[:, :, None] * self.per_cost
        least, most = ends.min(0).sum(0) + self.fixed, ends.max(0).sum(0) + self.fixed
        #: 1 or -1 for prices that are never below or above 0, 0 for others, `(m,)`.
        self._signs = (least >= 0).astype(np.float64) - (most <= 0)
        #: The largest that each price can be, under any of the predictors, `(m,)`.
        self.sizes: Array = largest @ np.abs(self.per_cost) + np.abs(self.fixed)

    def __len__(self) -> int:
        return len(self.origin)

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.space.latent is not None:
            return "codes are searched, not contexts (use MDMM())"
        if trees_of(task.predictor) is None:
            return "the predictor is not a tree ensemble (use Auto())"
        if task.variation is not None and (reason := _unserved(task, task.variation)):
            return reason
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
        return TreeLimits(domain, row, self.origin[row], units, self.norm, self.dtype)

    def floors(self, row: int, boxes: BoxTree, multipliers: dict[int, Tree]) -> Array:
        """What limits on sums show boxes to cost at least: `(N,)`."""
        limits = self.limits(row)
        inside = all(0 <= node < len(boxes) for node in multipliers)
        return limits.floors(boxes, multipliers) if limits and inside else np.zeros(len(boxes))

    def refutes(self, row: int, x: Array) -> bool:
        """Whether the criterion does not hold in a context, by the model's own prediction: `(p,)`.

        Nor does it in any other context of its cell, where all costs are the same.
        """
        rules = self.rules_of(row)
        prices = self.prices(self.contexts(x[None]))
        rival = rules.rival(prices)
        doubtful = rival.failures or rival.shortfall is not None
        if doubtful or (rules.calls_solver and rules.problem.audit(rival.decisions.numpy())):
            return False
        return not bool(rules.judge(prices, rival.decisions).holds.all())

    def contexts(self, x: Array) -> Tensor:
        """Contexts in the shape and dtype of the task's own: `(R, p) -> (R, ...)`."""
        return torch.from_numpy(x).reshape(-1, *self.shape).to(self.space.origin)

    def prices(self, x: Tensor) -> Tensor:
        """Turned prices as each of the K predictors gives them: `(R, ...) -> (K R, m)`."""
        with torch.no_grad():
            costs = [one.deployed(x).to("cpu", torch.float64) for one in self._pipelines]
        return self.rules.turned(torch.cat(costs))

    def prices_of(self, costs: Array) -> Tensor:
        """Those of what the leaves of a cell add up to: `(K n,) -> (K, m)`."""
        return self.rules.turned(torch.from_numpy(costs.reshape(self.scenarios, -1)))

    @property
    def rounding(self) -> float:
        """By what fraction of its terms the model's own sum may differ from that of its leaves."""
        return 2 * SUMS * self.ensemble.precision + _ROUNDING

    def cuts(
        self, row: int, quantifier: Quantifier, decisions: Array
    ) -> tuple[Array, Array, Array]:
        """Cuts on costs, base apart: weights `(D C, n)`, limits and sizes `(D C,)`.

        With several predictors, each decision is about all of them; or it is a choice of one for
        each, side by side. Its cuts follow each other.

        Arguments:
            row: the row.
            quantifier: the role of the decisions.
            decisions: feasible ones, `(D, m)`, or choices of them, `(D, K m)`.
        """
        count = self.scenarios
        if count == 1:
            return self._cuts(row, quantifier, decisions, self.ensemble.base)
        bases = self.ensemble.base.reshape(count, -1)
        parts = [
            self._cuts(row, quantifier, own, base)
            for own, base in zip(self.parts(decisions), bases, strict=True)
        ]
        weights = np.zeros(
            (len(decisions), len(parts[0][1]) // len(decisions), count, *bases.shape)
        )
        for k, (own, _, _) in enumerate(parts):
            weights[:, :, k, k] = own.reshape(weights[:, :, k, k].shape)
        limits, sizes = (np.stack([part[i] for part in parts], axis=1).ravel() for i in (1, 2))
        return weights.reshape(-1, bases.size), limits, sizes

    def _cuts(
        self, row: int, quantifier: Quantifier, decisions: Array, base: Array
    ) -> tuple[Array, Array, Array]:
        """The cuts on the costs of one predictor, with its base."""
        directions = self.directions(row, quantifier, decisions)
        terms = self._terms(row, quantifier, decisions)
        # A fraction of the terms |price_j| is granted: of prices of one sign it is linear in them,
        # of others it is at most that of the largest.
        signed = TOLERANCE * self._signs * terms
        granted = TOLERANCE * terms @ np.where(self._signs == 0, self.sizes, 0.0)
        granted += self.rules.rounding * self.largest[row] * terms.sum(axis=1)
        size = terms @ self.sizes
        # A lead over the factual decision is asked for, not granted: so little that less than
        # elsewhere may be left to rounding.
        lead = self.lead(row, quantifier, decisions)
        asked = lead > 0
        signed[asked], size[asked], granted[asked] = 0.0, 0.01 * size[asked], -lead[asked]
        if not self.rules.problem.ranks_decisions:
            granted += FEASIBILITY_TOLERANCE * size
        # The library itself may add its leaves in single precision.
        granted += SUMS * self.ensemble.precision * size
        eased = directions - signed
        weights: Array = eased @ self.per_cost.T
        constant = eased @ self.fixed + weights @ base
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
