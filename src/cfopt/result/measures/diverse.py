"""How different the options of a row are from each other."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from cfopt._typing import Array
from cfopt.result.explanation import Explanation
from cfopt.result.measures.closeness import Units, changed, flat


def diversity(e: Explanation, rows: Array, units: Units | None) -> dict[str, Array]:
    """How many options each row has, and how they differ; `(K,)` each.

    The mean distance of each two of them is Euclidean, in deviations where these are known; the
    mean difference of what they change is 1 minus the shared part of the changed features
    (Jaccard). Both are NaN where there are fewer than two.

    Arguments:
        e: all rows, with options.
        rows: those that are asked about, `(K,)`.
        units: what is usual; None if no contexts are known.
    """
    assert e.options is not None
    count, apart, other = np.zeros(len(rows)), *np.full((2, len(rows)), np.nan)
    for k, row in enumerate(rows):
        options = e.options[row]
        options = options[options.answered]
        count[k] = len(options)
        if len(options) > 1:
            after = flat(options)[1]
            apart[k] = pdist(after if units is None else after / units.deviation).mean()
            other[k] = pdist(changed(options), "jaccard").mean()
    unit = "" if units is None else " in deviations"
    return {
        "options": count,
        f"distance between options{unit}": apart,
        "difference of changed features": other,
    }
