"""What is left of answers when something changes: a feature put back, noise, another fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.pipeline import Pipeline
from cfopt.result.explanation import Explanation
from cfopt.result.measures.closeness import Units, changed, places
from cfopt.result.measures.judge import Judge


def redundant(e: Explanation, judge: Judge, rows: Tensor) -> Array:
    """How many changed features could each be put back, with the answer still valid: `(K,)`.

    Arguments:
        e: all rows.
        judge: solves again with the feature as it was.
        rows: those that are asked about, `(K,)`.
    """
    moved, entries = changed(e), places(e)
    asked = [(k, row, f) for k, row in enumerate(rows.tolist()) for f in np.flatnonzero(moved[row])]
    found = np.zeros(len(rows))
    if not asked:
        return found
    numbers = torch.tensor([row for _, row, _ in asked])
    x = e.x[numbers].flatten(1).clone()
    for one, (_, row, feature) in enumerate(asked):
        x[one, entries[feature]] = e.x0[row].flatten()[entries[feature]]
    valid = judge.valid(numbers, x.view(-1, *e.x.shape[1:]))
    for (k, _, _), still in zip(asked, valid.tolist(), strict=True):
        found[k] += still
    return found


def under_noise(
    e: Explanation, judge: Judge, rows: Tensor, units: Units, noise: float, draws: int, seed: int
) -> Array:
    """The share of draws `x + noise * deviation * N(0, I)` in which the criterion holds: `(K,)`.

    Features that cannot change and whole numbers stay; draws are moved into the bounds.

    Arguments:
        e: all rows.
        judge: solves again at each draw.
        rows: those that are asked about, `(K,)`.
        units: what is usual.
        noise: the size of the noise, in deviations.
        draws: how many for each row.
        seed: the seed of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers = rows.repeat_interleave(draws)
    x = e.x[numbers]
    random = torch.randn(x.flatten(1).shape, generator=generator, dtype=torch.float64)
    step = noise * torch.from_numpy(units.deviation) * random
    if judge.domain is not None:
        limits = judge.domain.limits
        step[:, torch.from_numpy(limits.immutable | limits.integer)] = 0.0
    x = x + step.to(x).view_as(x)
    if judge.domain is not None:
        x = judge.domain[numbers].clamp(x)
    holds: Array = judge.holds(numbers, x).double().view(-1, draws).mean(dim=1).numpy()
    return holds


def under_refits(e: Explanation, rows: Tensor, refits: Sequence[Pipeline]) -> Array:
    """The share of refitted pipelines with which the criterion still holds: `(K,)`.

    Arguments:
        e: all rows.
        rows: those that are asked about, `(K,)`.
        refits: pipelines whose predictors were refitted, to other data or from another seed.
    """
    held = [Judge(e, one).holds(rows, e.x[rows]).numpy() for one in refits]
    share: Array = np.mean(held, axis=0, dtype=np.float64)
    return share
