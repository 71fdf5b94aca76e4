"""Proofs about affine predictors: multipliers of cuts, and what is known of every decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cfopt._rows import stacked
from cfopt._typing import Array, Flags, Indices
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Certificate, Clash, Cut, groups
from cfopt.exact.geometry import (
    Cases,
    Choice,
    Euclidean,
    Grid,
    HalfSpaces,
    Leaf,
    Split,
    System,
    Tree,
    bounds_by_case,
    bounds_of_many,
    case_exclusions,
    leaves,
    listed_cases,
    proved_bound,
    splits,
)
from cfopt.names import counted
from cfopt.question.quantifier import Quantifier

#: A multiplier below this fraction of the largest plays no role in a clash.
_ROLE = 1e-7
#: Where decisions are not known exactly, a bound stands if what verification grants lowers it by no
#: more than this fraction.
_ROBUST = 0.01


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
            for ray, quantifier, decisions in groups(self.cuts)
        ]
        leeway = model.leeway(row, np.concatenate(weights))
        return system.with_leeway(leeway, self._cut(model, row))

    def _cut(self, model: AffineTask, row: int) -> HalfSpaces:
        return model.cuts(row, self.cuts)

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
        if model.unbounded and isinstance(model.norm, Euclidean):
            alike: dict[tuple[Quantifier, type[Tree]], dict[int, CutProof]] = {}
            for row, proof in proofs.items():
                if (kind := proof._combined_kind()) is not None:
                    alike.setdefault((kind, type(proof.tree)), {})[row] = proof
            for (kind, tree), some in alike.items():
                if tree is Cases or model.space.domain is None:
                    found |= cls._combined(model, kind, some)
        settled = {
            row: bound
            for row, bound in found.items()
            if bound == 0 or (bound < np.inf and model.exact_decisions)
        }
        rest = {row: proof for row, proof in proofs.items() if row not in settled}
        return settled | super().bounds(model, rest)

    def _combined_kind(self) -> Quantifier | None:
        """The one kind of its cuts, if all it does is combine them, in each case or at all."""
        if self.infeasible or not self.cuts or not isinstance(self.tree, Leaf | Cases):
            return None
        kind = self.cuts[0].quantifier
        if kind is Quantifier.SOME:
            return None
        for cut in self.cuts:
            if cut.ray or cut.quantifier is not kind:
                return None
        return kind

    @staticmethod
    def _combined(
        model: AffineTask, kind: Quantifier, proofs: Mapping[int, CutProof]
    ) -> dict[int, float]:
        """The bounds of proofs that combine cuts of one kind, to the last digit."""
        trees = [proof.tree for proof in proofs.values()]
        multipliers = [tree.multipliers for tree in trees if isinstance(tree, Leaf | Cases)]
        counts = np.array([len(proof.cuts) for proof in proofs.values()], dtype=np.intp)
        width = len(model.multiples(kind)) * (2 if model.rules.margin else 1) * len(model.models)
        if [one.shape[-1] for one in multipliers] != (width * counts).tolist():
            return {}  # some belong to another system
        rows = np.array(list(proofs)).repeat(counts)
        decisions = stacked([cut.decision for proof in proofs.values() for cut in proof.cuts])
        directions = model.directions_of_each(rows, kind, decisions)
        half_spaces = model.cut(
            rows.repeat(directions.shape[1]), directions.reshape(-1, decisions.shape[1])
        )
        first = counts.cumsum() - counts
        if isinstance(trees[0], Leaf):
            bounds = bounds_of_many(half_spaces, np.concatenate(multipliers), width * first)
        else:
            supports = [model.support(row) for row in proofs]
            bounds = bounds_by_case(half_spaces, multipliers, width * first, supports)
        belong = np.logical_and.reduceat(_belong(model, rows, kind, decisions), first)
        return dict(zip(proofs, np.where(belong, bounds, 0.0).tolist(), strict=True))

    def decisions(self) -> list[Array]:
        """Those of the cuts, rays apart."""
        return [cut.decision for cut in self.cuts if not cut.ray]

    def clash(self, model: AffineTask, row: int) -> Clash:
        """The cuts and limits with a multiplier; of several branches, those of any."""
        system = self.system(model, row)
        rows, features, radius = self._involved(system, model.grid(row))
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
            counted_out = Choice in divided or isinstance(self.tree, Cases)
            if counted_out and domain.limits.max_changes is not None:
                limits.append(f"at most {counted(domain.limits.max_changes, 'change')}")
        decisions = [self.cuts[k].decision for k in used]
        width = self.cuts[0].decision.shape[0] if self.cuts else 0
        return Clash(
            np.array(decisions).reshape(len(used), width), tuple(limits), tuple(locked), radius
        )

    def _involved(self, system: System, grid: Grid | None) -> tuple[Flags, Flags, float]:
        """The rows and features that clash, `(k,)` and `(p,)`, and within which radius."""
        if isinstance(self.tree, Cases) and (cases := listed_cases(system, self.tree)) is not None:
            weights = np.abs(self.tree.multipliers)
            least = _ROLE * weights.max(axis=1, initial=0.0, keepdims=True)
            slopes = np.abs(weights @ system.matrix)
            held = system.lower == system.upper
            used = (slopes > least) & ((cases > 0) | held)
            radii, _ = case_exclusions(system, cases, weights)
            return (weights > least).any(axis=0), used.any(axis=0), float(radii.min())
        rows = np.zeros(len(system.matrix), dtype=bool)
        features = np.zeros(len(system.lower), dtype=bool)
        radius = np.inf
        for part, leaf in leaves(system, self.tree, grid):
            rows |= np.abs(leaf.multipliers) > _ROLE * np.abs(leaf.multipliers).max(initial=0.0)
            slope, _ = part.combine(leaf.multipliers)
            used = np.abs(slope) > _ROLE * np.abs(leaf.multipliers).max(initial=0.0)
            # What only this case holds is not a limit of the feature's own.
            features |= used & ((part.lower < part.upper) | (system.lower == system.upper))
            radius = min(radius, part.radius(leaf.multipliers))
        return rows, features, radius


def _belong(model: AffineTask, rows: Indices, kind: Quantifier, decisions: Array) -> Flags:
    """Which decisions are such that the criterion of their row implies their cut, `(N,)`.

    As `Cut.belongs` says of one.
    """
    rules = model.rules
    belong: Flags = np.ones(len(rows), dtype=bool)
    if kind is Quantifier.GIVEN:
        belong = (decisions == rules.factual.numpy()[rows]).all(axis=1)
    elif rules.criterion.contrasts and rules.margin > 0:
        belong = (decisions != model.pivot[rows]).any(axis=1)
    return belong


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
        plain = self._bounds(model.nominal, row).min(keepdims=True)
        return max(least, float(model.farther(plain)[0]))

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
