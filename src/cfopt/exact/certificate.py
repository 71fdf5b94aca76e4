"""Proofs that no nearer explanation exists, or none at all, in a form that can be re-checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np

from cfopt._typing import Array, Flags, Indices
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.exact_task import ExactTask
from cfopt.exact.geometry import (
    Choice,
    Euclidean,
    HalfSpaces,
    Leaf,
    Split,
    System,
    Tree,
    bounds_of_many,
    leaves,
    proved_bound,
    splits,
)
from cfopt.exact.inequalities import Inequalities
from cfopt.names import counted
from cfopt.question.quantifier import Quantifier

if TYPE_CHECKING:
    from cfopt.exact.tree_task import TreeTask

#: A multiplier below this fraction of the largest plays no role in a clash.
_ROLE = 1e-7
#: Where decisions are not known exactly, a bound stands if what verification grants lowers it by no
#: more than this fraction.
_ROBUST = 0.01


@dataclass(frozen=True)
class Cut:
    """Inequalities that hold wherever the criterion does.

    Arguments:
        decision: the feasible decision that they are about, or a direction of recession, `(m,)`.
        quantifier: the role in which the decision enters.
        ray: whether it is a direction in which feasible decisions go on without end.
    """

    decision: Array
    quantifier: Quantifier
    ray: bool = False

    @cached_property
    def key(self) -> tuple[Quantifier, bytes]:
        """By which it is told from others."""
        return self.quantifier, (self.decision + 0.0).tobytes()  # + 0.0 turns -0.0 into 0.0

    def directions(self, model: ExactTask, row: int) -> Array:
        """The d of all its `<prices, d> <= 0`: `(C, m)`."""
        if self.ray:
            return model.ray_directions(self.decision[None])
        return model.directions(row, self.quantifier, self.decision[None])

    def belongs(self, model: Inequalities | TreeTask, row: int, some: Array | None = None) -> bool:
        """Whether the criterion implies the cut, if its decision is feasible.

        `some` is the decision that is enough, where the cut may be about that one.
        """
        rules = model.rules
        if self.ray:
            return rules.problem.recedes(self.decision)
        if self.quantifier is Quantifier.GIVEN:
            return np.array_equal(self.decision, rules.factual[row].numpy())
        if self.quantifier is Quantifier.SOME:
            return some is not None and np.array_equal(self.decision, some)
        # With a margin, the alternative need not win against itself.
        own = rules.pivot[row].numpy()
        contrast = rules.criterion.contrasts and rules.margin > 0
        return not (contrast and np.array_equal(self.decision, own))


def cut_directions(cuts: Sequence[Cut], model: ExactTask, row: int) -> Array:
    """The d of all `<prices, d> <= 0` of some cuts, in their order: `(C, m)`."""
    directions = [
        model.ray_directions(decisions) if ray else model.directions(row, quantifier, decisions)
        for ray, quantifier, decisions in _groups(cuts)
    ]
    return directions[0] if len(directions) == 1 else np.concatenate(directions)


def _groups(cuts: Sequence[Cut]) -> Iterator[tuple[bool, Quantifier, Array]]:
    """Cuts of one kind in a row: whether they are rays, their quantifier, and `(K, m)`."""
    for (ray, quantifier), some in groupby(cuts, lambda cut: (cut.ray, cut.quantifier)):
        yield ray, quantifier, np.stack([cut.decision for cut in some])


@dataclass(frozen=True)
class Clash:
    """Why a row has no explanation.

    Arguments:
        decisions: the decisions that the plan cannot beat at once, `(K, m)`.
        limits: the limits on x that are involved, in words.
        locked: the features that cannot change and are involved: unlocking them could help.
        radius: the distance of x0 within which it is proved, in units of the features' scales.
        why: why one decision alone is enough, to follow its name; or "".
    """

    decisions: Array
    limits: tuple[str, ...]
    locked: tuple[str, ...]
    radius: float
    why: str = ""


#: A task as inequalities on a row's change, or on its cells.
M = TypeVar("M")


class Certificate(ABC, Generic[M]):
    """What can be proved about the explanations of one row, of a task in the form M."""

    @property
    @abstractmethod
    def infeasible(self) -> bool:
        """Whether it is said to prove that there is none."""

    @classmethod
    @abstractmethod
    def model(cls, task: Task) -> M | None:
        """The task in the form that the proof is about; None if it has not got it."""

    @abstractmethod
    def bound(self, model: M, row: int) -> float:
        """The least loss of any explanation, computed again; inf if there is none."""

    @classmethod
    def bounds(cls, model: M, proofs: Mapping[int, Self]) -> dict[int, float]:
        """The bounds of several rows by their numbers; some kinds of proofs share the work."""
        return {row: proof.bound(model, row) for row, proof in proofs.items()}

    @abstractmethod
    def decisions(self) -> list[Array]:
        """The decisions that must be feasible for the proof to hold, `(m,)` each."""

    @abstractmethod
    def clash(self, model: M, row: int) -> Clash:
        """What contradicts each other, where the bound is infinite."""


class AffineProof(Certificate[AffineTask]):
    """A proof about an affine predictor."""

    @classmethod
    def model(cls, task: Task) -> AffineTask | None:
        """The task as half-spaces of a change."""
        return None if AffineTask.refusal(task) else AffineTask(task)


@dataclass(frozen=True)
class CutProof(AffineProof):
    """Cuts, and multipliers for them.

    Arguments:
        cuts: all cuts, in the order in which they were added to the master.
        tree: multipliers of the limits on sums of features and of the cuts, in this order.
        infeasible: whether they are said to prove that there is no explanation.
    """

    cuts: tuple[Cut, ...]
    tree: Tree
    infeasible: bool = False

    def strict_system(self, model: AffineTask, row: int) -> System:
        """The limits and cuts, built again, to the last digit."""
        system = model.system(row)
        return system.with_cuts(self._cut(model, row)) if self.cuts else system

    def system(self, model: AffineTask, row: int) -> System:
        """The same, the cuts with what verification grants."""
        system = self.strict_system(model, row)
        if not self.cuts:
            return system
        weights = [
            np.abs(model.ray_directions(decisions))
            if ray
            else model.weights(row, quantifier, decisions)
            for ray, quantifier, decisions in _groups(self.cuts)
        ]
        leeway = model.leeway(row, np.concatenate(weights))
        return system.with_leeway(leeway, self._cut(model, row))

    def _cut(self, model: AffineTask, row: int) -> HalfSpaces:
        return model.cut(row, cut_directions(self.cuts, model, row))

    def bound(self, model: AffineTask, row: int, some: Array | None = None) -> float:
        """What the multipliers prove of a fresh system.

        `some` is the decision of a branch: only there may it enter as the one that is enough.
        """
        if not all(cut.belongs(model, row, some) for cut in self.cuts):
            return 0.0
        grid = model.grid(row)
        if self.infeasible:
            granting = proved_bound(self.system(model, row), model.norm, self.tree, grid)
            if granting == np.inf:
                return granting  # all the more to the last digit
        strict = proved_bound(self.strict_system(model, row), model.norm, self.tree, grid)
        if strict == 0 or (strict < np.inf and model.exact_decisions):
            return strict
        # That there is no explanation must hold of all that would be called valid. So must a bound
        # where decisions are known to some tolerance only: the criterion itself may hold nowhere.
        granting = proved_bound(self.system(model, row), model.norm, self.tree, grid)
        sound = strict < np.inf and granting >= (1 - _ROBUST) * strict
        return strict if sound else granting

    @classmethod
    def bounds(cls, model: AffineTask, proofs: Mapping[int, CutProof]) -> dict[int, float]:
        """What is proved by one combination of half-spaces alone is computed for all rows at once.

        One by one, whatever takes more: clashes, limits, other norms, inexact decisions.
        """
        found: dict[int, float] = {}
        if model.space.domain is None and isinstance(model.norm, Euclidean):
            alike = {row: proof for row, proof in proofs.items() if proof._combines}
            for kind in (Quantifier.GIVEN, Quantifier.EVERY):
                found |= cls._combined(model, kind, _of_kind(alike, kind))
        settled = {
            row: bound
            for row, bound in found.items()
            if bound == 0 or (bound < np.inf and model.exact_decisions)
        }
        rest = {row: proof for row, proof in proofs.items() if row not in settled}
        return settled | super().bounds(model, rest)

    @property
    def _combines(self) -> bool:
        """Whether it is one combination of decisions' half-spaces, and claims no clash."""
        plain = bool(self.cuts) and not self.infeasible and isinstance(self.tree, Leaf)
        return plain and not any(cut.ray for cut in self.cuts)

    @staticmethod
    def _combined(
        model: AffineTask, kind: Quantifier, proofs: Mapping[int, CutProof]
    ) -> dict[int, float]:
        """The bounds of proofs by one combination of cuts of one kind, to the last digit."""
        if not proofs or not model.multiples(kind):
            return {}
        counts = [len(proof.cuts) for proof in proofs.values()]
        rows = np.repeat(list(proofs), counts)
        decisions = np.stack([cut.decision for proof in proofs.values() for cut in proof.cuts])
        found = model.directions_of_each(rows, kind, decisions)
        width = found.shape[1] * len(model.models)
        sizes = width * np.array(counts)
        multipliers = [np.asarray(proof.tree.multipliers) for proof in proofs.values()]  # type: ignore[union-attr]
        fits = np.array([len(one) for one in multipliers]) == sizes
        if not fits.all():
            return {}  # some belong to another system
        directions = found.reshape(-1, decisions.shape[1])
        starts = np.cumsum(sizes) - sizes
        bounds = bounds_of_many(
            model.cut(rows.repeat(found.shape[1]), directions), np.concatenate(multipliers), starts
        )
        first = np.cumsum(counts) - counts
        belong = np.logical_and.reduceat(_belongs(model, rows, kind, decisions), first)
        return dict(zip(proofs, np.where(belong, bounds, 0.0).tolist(), strict=True))

    def decisions(self) -> list[Array]:
        """Those of the cuts, rays apart."""
        return [cut.decision for cut in self.cuts if not cut.ray]

    def clash(self, model: AffineTask, row: int) -> Clash:
        """The cuts and limits with a multiplier; of several branches, those of any."""
        system, grid = self.system(model, row), model.grid(row)
        parts = list(leaves(system, self.tree, grid))
        rows = np.zeros(len(system.matrix), dtype=bool)
        features = np.zeros(len(system.lower), dtype=bool)
        radius = np.inf
        for part, leaf in parts:
            rows |= np.abs(leaf.multipliers) > _ROLE * np.abs(leaf.multipliers).max(initial=0.0)
            slope, _ = part.combine(leaf.multipliers)
            used = np.abs(slope) > _ROLE * np.abs(leaf.multipliers).max(initial=0.0)
            # What only this case holds is not a limit of the feature's own.
            features |= used & ((part.lower < part.upper) | (system.lower == system.upper))
            radius = min(radius, part.radius(leaf.multipliers))
        first = len(model.system(row).matrix)
        owners = [
            k
            for k, cut in enumerate(self.cuts)
            for _ in range(len(cut.directions(model, row)) * len(model.models))
        ]
        used = sorted({owners[k] for k in np.flatnonzero(rows[first:])})
        used = [k for k in used if not self.cuts[k].ray]
        domain = model.space.domain
        limits: list[str] = []
        locked: list[str] = []
        if domain is not None:
            names = domain.limits.names
            limits += [domain.describe_sum(int(k)) for k in np.flatnonzero(rows[:first])]
            for j in np.flatnonzero(features):
                (locked if domain.limits.immutable[j] else limits).append(names[int(j)])
            divided = {type(one) for one in splits(self.tree)}
            if Split in divided:
                limits.append("features that are whole numbers")
            if Choice in divided and domain.limits.max_changes is not None:
                limits.append(f"at most {counted(domain.limits.max_changes, 'change')}")
        decisions = [self.cuts[k].decision for k in used]
        width = self.cuts[0].decision.shape[0] if self.cuts else 0
        return Clash(
            np.array(decisions).reshape(len(used), width), tuple(limits), tuple(locked), radius
        )


def _of_kind(proofs: Mapping[int, CutProof], kind: Quantifier) -> dict[int, CutProof]:
    """Those whose cuts all have one role."""
    return {
        row: proof
        for row, proof in proofs.items()
        if all(cut.quantifier is kind for cut in proof.cuts)
    }


def _belongs(model: AffineTask, rows: Indices, kind: Quantifier, decisions: Array) -> Flags:
    """Which decisions are such that the criterion of their row implies their cut, `(N,)`.

    As `Cut.belongs` says of one.
    """
    rules = model.rules
    if kind is Quantifier.GIVEN:
        return (decisions == rules.factual.numpy()[rows]).all(axis=1)
    if not (rules.criterion.contrasts and rules.margin > 0):
        return np.ones(len(rows), dtype=bool)
    return (decisions != model.pivot[rows]).any(axis=1)


@dataclass(frozen=True)
class ListProof(AffineProof):
    """A proof for each decision that could meet the criterion: by its half-spaces, or by cuts.

    Where answers have to stand up to something, different decisions may meet it in different
    contexts and under different predictors. Then the proof is about the plain task, which every
    answer solves as well, and branches are none. If contexts may be off by r, the point of the way
    back to x0 that is r from the answer solves it, too, so that the answer is r farther away.

    Arguments:
        limit: the most decisions to list.
        root: what follows from what every decision must meet, if anything must.
        branches: proofs for the decisions whose half-spaces alone are not enough.
        infeasible: whether they are said to prove that there is no explanation.
    """

    limit: int
    root: CutProof | None
    branches: dict[int, CutProof]
    infeasible: bool = False

    def bound(self, model: AffineTask, row: int) -> float:
        """The least bound of any decision."""
        least = 0.0 if self.root is None else self.root.bound(model, row)
        if not model.varied:
            return max(least, float(self._bounds(model, row).min()))
        if self.branches:
            return least  # they are about one decision for all contexts and predictors
        plain = float(self._bounds(model.nominal, row).min())
        return max(least, model.farther(row, plain))

    def _bounds(self, model: AffineTask, row: int) -> Array:
        table = model.decision_table(self.limit)
        if table is None:
            return np.zeros(1)
        bounds = table.bounds(row)
        for k, proof in self.branches.items():
            bounds[k] = max(bounds[k], proof.bound(model, row, some=table.decisions[k]))
        return bounds

    def decisions(self) -> list[Array]:
        """Those of all its cuts."""
        proofs = [*([] if self.root is None else [self.root]), *self.branches.values()]
        return [decision for proof in proofs for decision in proof.decisions()]

    def clash(self, model: AffineTask, row: int) -> Clash:
        """That of what every decision must meet; else the limits that are involved anywhere."""
        if self.root is not None and self.root.bound(model, row) == np.inf:
            return self.root.clash(model, row)
        clashes = [proof.clash(model, row) for proof in self.branches.values()]
        limits = dict.fromkeys(limit for clash in clashes for limit in clash.limits)
        locked = dict.fromkeys(name for clash in clashes for name in clash.locked)
        radius = min((clash.radius for clash in clashes), default=np.inf)
        table, domain = model.decision_table(self.limit), model.space.domain
        if table is not None and domain is not None:
            for j in table.held(row):
                group = locked if domain.limits.immutable[j] else limits
                group[domain.limits.names[j]] = None
        return Clash(np.empty((0, 1)), tuple(limits), tuple(locked), radius)
