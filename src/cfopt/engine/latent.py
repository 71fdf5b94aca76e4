"""The latent space of a generative model as the place in which a task is searched."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.generative.anchored import Anchor
from cfopt.generative.protocol import GenerativeModel, ambiguity, shown
from cfopt.problems.solved import same_decision
from cfopt.question.features import Features
from cfopt.question.limits import Limits
from cfopt.question.plausibility import CodePenalty


@dataclass(frozen=True)
class LatentSpace(Batch):
    """Codes instead of contexts, and how plausible they are.

    Arguments:
        model: turns codes into contexts.
        codes: those of the factual contexts, `(B, n)`; where only some entries move, these.
        plausibility: what is added to the proximity; None for nothing.
        anchor: what is put back into decoded contexts where nothing changes, if anything.
        base: whole codes, whose other entries stay as they are, `(B, n)`; None if all move.
        moving: the entries that move, by number, `(B, r)`.
        directions: in which directions codes move from their base, if not in single entries:
            orthonormal, one in each column, `(n, r)`.
        stray: what a unit of squared distance from the factual code adds to the plausibility.
        undecided: how undecided the model is about factual contexts, `(B, p)`, if it says so.
    """

    model: GenerativeModel
    codes: Tensor = field(metadata=ROWS)
    plausibility: CodePenalty | None = None
    anchor: Anchor | None = field(default=None, metadata=ROWS)
    base: Tensor | None = field(default=None, metadata=ROWS)
    moving: Tensor | None = field(default=None, metadata=ROWS)
    directions: Tensor | None = None
    stray: float = 0.0
    undecided: Tensor | None = field(default=None, metadata=ROWS)

    def full(self, z: Tensor) -> Tensor:
        """Whole codes: `(B, r) -> (B, n)`."""
        if self.base is None:
            return z
        if self.directions is not None:
            return self.base + z @ self.directions.T
        assert self.moving is not None
        return self.base.scatter(1, self.moving, z)

    def implausibility(self, z: Tensor, more: Tensor | None = None) -> Tensor:
        """The penalty of codes without its gradient, which takes longer: `(B, r) -> (B,)`.

        Arguments:
            z: the codes.
            more: by how much the model is more undecided there, if `shown` has said so, `(B,)`.
        """
        assert self.plausibility is not None
        value = self.plausibility(self.full(z))
        if self.stray > 0:
            value = value + self.stray * (z - self.codes).square().sum(1)
        if self.undecided is None:
            return value
        if more is not None:
            return value + more.detach()
        with torch.no_grad():
            return value + self._more_undecided(self._ambiguity(z))

    def penalty(self, z: Tensor, more: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The plausibility of codes, and its gradient by the entries that move: `(B, r)`.

        Where the model says how undecided it is, this counts as well, as far as it is more than
        it was: a border that moves costs what a new one does, and old ones are left in peace.

        Arguments:
            z: the codes.
            more: by how much the model is more undecided there, if `shown` has said so, `(B,)`; its
                gradient is then left to the caller, who has its graph.
        """
        assert self.plausibility is not None
        value, by_code = self.plausibility.evaluate(self.full(z))
        slope = self._by_entry(by_code)
        if self.stray > 0:
            away = z - self.codes
            value = value + self.stray * away.square().sum(1)
            slope = slope + 2 * self.stray * away
        if self.undecided is None:
            return value, slope
        if more is not None:
            return value + more.detach(), slope
        point = z.detach().clone().requires_grad_()
        with torch.enable_grad():
            more = self._more_undecided(self._ambiguity(point))
        (by_entry,) = torch.autograd.grad(more, point, torch.ones_like(more))
        return value + more.detach(), slope + by_entry

    def _by_entry(self, slope: Tensor) -> Tensor:
        """A slope by whole codes, by what moves: `(B, n) -> (B, r)`."""
        if self.directions is not None:
            return slope @ self.directions
        return slope if self.moving is None else slope.gather(1, self.moving)

    def _ambiguity(self, z: Tensor) -> Tensor:
        now = ambiguity(self.model, self.full(z))
        assert now is not None
        return now

    def _more_undecided(self, now: Tensor) -> Tensor:
        """By how much the model is more undecided than about factual contexts: `(B, p) -> (B,)`."""
        assert self.undecided is not None
        return (now - self.undecided).clamp(min=0).sum(1)

    def curvature(self, z: Tensor) -> Tensor:
        """A model of the plausibility's curvature by these: `(B, r) -> (B, r, r)`."""
        if self.plausibility is None:
            return z.new_zeros((*z.shape, z.shape[1]))
        straying = 2 * self.stray * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        whole = self.plausibility.curvature(self.full(z))
        if self.directions is not None:
            return self.directions.T @ whole @ self.directions + straying
        if self.moving is None:
            return whole + straying
        rows = self.moving[:, :, None].expand(-1, -1, whole.shape[2])
        columns = self.moving[:, None].expand(-1, self.moving.shape[1], -1)
        return whole.gather(1, rows).gather(2, columns) + straying

    def decode(self, z: Tensor) -> Tensor:
        """The context of each row's code: `(B, n) -> (B, ...)`."""
        return self._anchored(self.model.decode(self.full(z)))

    def shown(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same, and by how much the model is more undecided there, `(B,)`; None if unasked."""
        if self.undecided is None or self.plausibility is None:
            return self.decode(z), None
        decoded, now = shown(self.model, self.full(z))
        assert now is not None
        return self._anchored(decoded), self._more_undecided(now)

    def _anchored(self, decoded: Tensor) -> Tensor:
        return decoded if self.anchor is None else self.anchor.restore(decoded)


@dataclass(frozen=True, eq=False)
class Codes(Batch):
    """What a latent explanation knows besides the contexts.

    Arguments:
        z0: the codes of the factual contexts, `(B, n)`.
        z: the codes of the contexts that explain, `(B, n)`; z0 where there was nothing to search.
        reconstruction: what the generative model makes of the factual contexts, `(B, ...)`.
        decision: what the pipeline decides there, before any search, `(B, m)`.
        costs: the predicted costs there, `(B, n)`.
    """

    z0: Tensor = field(metadata=ROWS)
    z: Tensor = field(metadata=ROWS)
    reconstruction: Tensor = field(metadata=ROWS)
    decision: Tensor = field(metadata=ROWS)
    costs: Tensor = field(metadata=ROWS)

    def moved(self, factual: Tensor) -> Tensor:
        """Where the model alone, not the search, changes the decision: `(B, m) -> (B,)`."""
        known = self.decision.isfinite().all(1) & factual.isfinite().all(1)
        return known & ~same_decision(self.decision, factual)


def unkept_limits(features: Features, size: int) -> str:
    """Which limits on contexts no code can be expected to keep, in words; "" if none.

    Every feature of a decoded context differs a little from what it was.
    """
    limits: Limits = features.limits(size)
    faults = {
        "features that cannot change": (limits.immutable | (limits.lower == limits.upper)).any(),
        "features that change in one direction only": (limits.increase | limits.decrease).any(),
        "whole numbers": limits.integer.any(),
        "one-hot groups": len(limits.groups) > 0,
        "sums that must have one value": (limits.row_lower == limits.row_upper).any(),
        "a number of changes": limits.max_changes is not None,
    }
    return " and ".join(name for name, given in faults.items() if given)


def norms(codes: Tensor) -> Tensor:
    """The Euclidean norm of each code: `(B, n) -> (B,)`."""
    norm: Tensor = torch.linalg.vector_norm(codes, dim=1)
    return norm
