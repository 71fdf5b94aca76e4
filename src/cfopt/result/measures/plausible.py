"""How usual answers are among contexts that are known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.extras import require
from cfopt.result.measures.closeness import Units
from cfopt.result.measures.judge import Judge

#: The neighbours to whose surroundings the local outlier factor compares: the usual choice.
_NEIGHBOURS = 20


def local_outlier_factor(x: Array, known: Array, units: Units) -> Array:
    """How much sparser the surroundings of contexts are than those of their neighbours: `(B,)`.

    About 1 among known contexts, larger outside of them (Breunig et al., 2000); in deviations.

    Arguments:
        x: contexts, `(B, p)`.
        known: those to compare with, `(N, p)`.
        units: what is usual.
    """
    require("The local outlier factor", "sklearn", "scikit-learn")
    from sklearn.neighbors import LocalOutlierFactor

    neighbours = min(_NEIGHBOURS, len(known) - 1)
    model = LocalOutlierFactor(n_neighbors=neighbours, novelty=True).fit(known / units.deviation)
    factor: Array = -model.score_samples(x / units.deviation)
    return factor


def isolation(x: Array, known: Array) -> Array:
    """How few random splits isolate contexts from known ones: `(B,)`, from 0 to 1.

    About 0.5 for a usual one, near 1 for an outlier (Liu, Ting and Zhou, 2008).

    Arguments:
        x: contexts, `(B, p)`.
        known: those to compare with, `(N, p)`.
    """
    require("The isolation forest", "sklearn", "scikit-learn")
    from sklearn.ensemble import IsolationForest

    score: Array = -IsolationForest(random_state=0).fit(known).score_samples(x)
    return score


def distance_to_wanted(
    judge: Judge, rows: Tensor, x: Tensor, known: Tensor, units: Units, nearest: int
) -> Array:
    """The mean distance to the nearest known contexts that explain as well, in deviations: `(B,)`.

    For `Absolute` these have the wanted decision. NaN where there is none.

    Arguments:
        judge: asks whether the criterion of a row holds.
        rows: the rows that are asked about, `(B,)`.
        x: their answers, `(B, ...)`.
        known: contexts to compare with, `(N, ...)`.
        units: what is usual.
        nearest: how many of them count.
    """
    size = torch.from_numpy(units.deviation)
    scaled, answers = known.flatten(1).double() / size, x.flatten(1).double() / size
    found = np.full(len(rows), np.nan)
    for k, row in enumerate(rows.tolist()):
        wanted = judge.holds(torch.full((len(known),), row), known)
        if wanted.any():
            away = (scaled[wanted] - answers[k]).norm(dim=1)
            found[k] = float(away.sort().values[:nearest].mean())
    return found
