"""Answers where the data are: contexts that are no more of an outlier than most known ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.question.plausibility import Plausibility

#: Distances that are computed at once.
_AT_ONCE = 4_000_000
#: Keeps densities finite where contexts coincide; scikit-learn's value.
_TINY = 1e-10
#: By which fraction of the limit rounding may exceed it.
_ROUNDING = 1e-9


@registry.plausibilities.register
@dataclass(frozen=True)
class LocalOutlier(Plausibility):
    """Where the data are: a local outlier factor of at most that of most known contexts.

        reach(x, o) = max(|o - its k-th neighbour|, |x - o|)
        density(o)  = 1 / mean of reach(o, n) over the k neighbours n of o
        LOF(x)      = mean of density(o) * mean of reach(x, o), over the k neighbours o of x

    About 1 among known contexts, larger where these are sparser than around their own neighbours
    (Breunig et al., 2000). The known contexts are those of `explain(reference=...)`; distances are
    Euclidean, in units of the features' scales, which are learned from them where none are given.

    Arguments:
        percentile: the percentile of the factors of known contexts that answers may not exceed.
        neighbours: k; all but one of the known contexts if these are fewer.
    """

    percentile: float = 95.0
    neighbours: int = 20

    def __post_init__(self) -> None:
        given = self.percentile
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 < given <= 100:
            raise InputError(f"LocalOutlier needs a percentile above 0, up to 100; got {given!r}.")
        count = self.neighbours
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise InputError(f"LocalOutlier needs a whole number >= 1 of neighbours, got {count}.")

    def among(self, known: Tensor, scales: Sequence[float] | None) -> Surroundings:
        """What the known contexts say; those with NaN are left out.

        Arguments:
            known: the contexts, `(N, ...)`.
            scales: a scale for each of their entries; None where all count as they are.
        """
        flat = known.detach().flatten(1).to("cpu", torch.float64)
        flat = flat[flat.isfinite().all(1)]
        if len(flat) < 3:
            raise InputError(
                f"LocalOutlier needs at least 3 known contexts that are finite, got {len(flat)}. "
                "Pass the training data: explain(reference=...)."
            )
        return Surroundings(flat, scales, self)


class Surroundings:
    """How dense known contexts are, and how far outside of them others lie.

    Arguments:
        known: the contexts, `(N, p)` in float64.
        scales: a scale for each entry; None where all count as they are.
        asked: how many neighbours count, and which contexts are outliers.

    Attributes:
        factors: the local outlier factors of the known contexts among the others, sorted, `(N,)`.
        limit: the largest factor that an answer may have.
    """

    def __init__(self, known: Tensor, scales: Sequence[float] | None, asked: LocalOutlier) -> None:
        self.asked = asked
        self._unit = torch.ones_like(known[0]) if scales is None else known.new_tensor(scales)
        self._known = known / self._unit
        count = min(asked.neighbours, len(known) - 1)
        away, which = self._nearest(self._known, count, own=True)
        self._reach = away[:, -1]
        reached = torch.maximum(away, self._reach[which]).mean(1)
        self._density = 1 / (reached + _TINY)
        factors = self._density[which].mean(1) * (reached + _TINY)
        self.factors = factors.sort().values
        self.limit = float(torch.quantile(self.factors, asked.percentile / 100))

    def _nearest(self, points: Tensor, count: int, own: bool = False) -> tuple[Tensor, Tensor]:
        """The distances to the nearest known contexts, and their numbers: `(B, p)` to `(B, k)`.

        Arguments:
            points: in units of the scales.
            count: k.
            own: whether the points are the known contexts themselves.
        """
        pieces = []
        numbers = torch.arange(len(points))
        for rows in torch.split(numbers, max(1, _AT_ONCE // len(self._known))):
            away = torch.cdist(
                points[rows], self._known, compute_mode="donot_use_mm_for_euclid_dist"
            )
            if own:  # a context is not its own neighbour
                away[torch.arange(len(rows)), rows] = torch.inf
            pieces.append(away.topk(count, largest=False))
        return torch.cat([one.values for one in pieces]), torch.cat([one.indices for one in pieces])

    def factor(self, x: Tensor) -> Tensor:
        """The local outlier factors of contexts, on the CPU: `(B, ...) -> (B,)`."""
        return self._judge(self._scaled(x))[0]

    def excess(self, x: Tensor) -> Tensor:
        """By what fraction of the limit contexts exceed it, 0 within: `(B, ...) -> (B,)`."""
        return self._over(self.factor(x)).to(x.device)

    def excess_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same, with its gradient where it is above 0: `(B, ...) -> (B,), (B, ...)`."""
        points = self._scaled(x)
        factor, away, which = self._judge(points)
        # Of neighbours that are nearer than their own ones only the latter's distance counts.
        far = torch.where(away > self._reach[which], away, torch.inf)[..., None]
        way = ((points[:, None] - self._known[which]) / far).mean(1) / self._unit
        over = self._over(factor)
        weight = torch.where(over > 0, self._density[which].mean(1) / self.limit, 0.0)
        return over.to(x), (weight[:, None] * way).view(x.shape).to(x)

    def percentile(self, x: Tensor) -> Tensor:
        """Which percentage of the known contexts has smaller factors: `(B, ...) -> (B,)`.

        NaN where x is not finite.
        """
        found = torch.full((len(x),), torch.nan, dtype=torch.float64)
        finite = x.flatten(1).isfinite().all(1).cpu()
        factor = self.factor(x[finite.to(x.device)])
        found[finite] = 100 * torch.searchsorted(self.factors, factor).double() / len(self.factors)
        return found

    def fault(self, factor: float) -> str:
        """Why a context of such a factor is not an answer; "" if it may be one."""
        if factor <= (1 + _ROUNDING) * self.limit:
            return ""
        return (
            f"the context is unlike those that are known: its local outlier factor is {factor:.4g},"
            f" at most {self.limit:.4g} is asked for"
        )

    def _over(self, factor: Tensor) -> Tensor:
        over = factor / self.limit - 1
        return torch.where(over > _ROUNDING, over, 0.0)

    def _scaled(self, x: Tensor) -> Tensor:
        return x.detach().flatten(1).to("cpu", torch.float64) / self._unit

    def _judge(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Factors, `(B,)`, distances to the neighbours and their numbers, `(B, k)`."""
        away, which = self._nearest(points, min(self.asked.neighbours, len(self._known) - 1))
        reached = torch.maximum(away, self._reach[which]).mean(1)
        return self._density[which].mean(1) * (reached + _TINY), away, which
