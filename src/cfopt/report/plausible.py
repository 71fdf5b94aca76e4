"""How plausible an answer is, to the generative model or among known contexts: in words."""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc

from cfopt.drawing.panel import host
from cfopt.engine.latent import norms
from cfopt.question import LocalOutlier
from cfopt.question.plausibility import KAPPA, mean_norm, prior_mass
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: Of the codes that a generative model makes, this fraction has the least norms, and as many the
#: largest, that are called unusual however near the typical norm they are.
_TAIL = 0.005
#: Contexts with no larger local outlier factors than half of the known ones are called typical.
_HALF = 50.0


def rating(e: Explanation) -> str:
    """One word for how plausible a single row is; "" where that was not asked for."""
    return ratings(e)[0]


def ratings(e: Explanation) -> list[str]:
    """One word for each row, of any number."""
    if isinstance(e.asked.plausibility, LocalOutlier) and e.typical is not None:
        return [_likeness(p, e.asked.plausibility) for p in e.typical.after.tolist()]
    if e.latent is None:
        return [""] * len(e)
    n = e.latent.z.shape[1]
    size = host(norms(e.latent.z))
    off, below = np.abs(size - mean_norm(n)), gammainc(n / 2, size**2 / 2)
    # Of few latents even a code of 0 is near the typical norm, and yet hardly ever made.
    usual = (off <= KAPPA) & (below >= _TAIL) & (below <= 1 - _TAIL)
    # One of norm's standard deviations is about 0.7, whatever the number of latents.
    words = np.where(usual, np.where(off <= 1, "typical", "plausible"), "unusual").tolist()
    return [
        "" if status is Status.REJECTED else word
        for word, status in zip(words, e.status, strict=True)
    ]


def _likeness(percentile: float, asked: LocalOutlier) -> str:
    """One word for a percentile of local outlier factors; "" without an answer, where it is NaN."""
    if percentile != percentile:
        return ""
    if percentile > asked.percentile:
        return "unusual"
    return "typical" if percentile <= _HALF else "plausible"


def plausibility(e: Explanation) -> list[str]:
    """How plausible the answer of a single row is, in sentences."""
    word, asked = rating(e), e.asked.plausibility
    if word and e.typical is not None and isinstance(asked, LocalOutlier):
        before, after = (float(side[0]) for side in (e.typical.before, e.typical.after))
        return [
            f"{word.capitalize()}. Its local outlier factor is above that of {after:.3g}% of the "
            f"known contexts, where {asked.percentile:g}% is the limit.",
            f"That of the context itself is above {before:.3g}% of theirs.",
        ]
    if not word or e.latent is None or e.status[0] is Status.PROVED_INFEASIBLE:
        return []
    n = e.latent.z.shape[1]
    size, own, radius = float(norms(e.latent.z)[0]), float(norms(e.latent.z0)[0]), mean_norm(n)
    mass = prior_mass(n, KAPPA)
    where = f"Its code has the norm {size:.3g}, where {radius:.3g} is typical"
    if word == "unusual":
        side = "a smaller one" if size < radius else "a larger one"
        below = float(gammainc(n / 2, size**2 / 2))
        share = below if size < radius else 1 - below
        reading = (
            f"Unusual. {where}: {_share(share)} of what the generative model makes "
            f"has {side}. Read the answer with care."
        )
    else:
        reading = (
            f"{word.capitalize()}. {where}; within {KAPPA:g} of that lies "
            f"{_share(mass)} of what the generative model makes."
        )
    parts = [reading, f"The code of the context itself has the norm {own:.3g}."]
    if e.typical is not None:
        parts.append(_usual(float(e.typical.before[0]), float(e.typical.after[0])))
    if bool(e.reconstruction_moved[0]):
        parts.append(
            "The generative model alone, before any search, already changes the decision here."
        )
    return parts


def _usual(before: float, after: float) -> str:
    """How usual the context is to the model, and the answer, unless there is none (NaN)."""
    said = f"Of known contexts, {before:.3g}% are more usual to the model than this one"
    return f"{said}." if after != after else f"{said}, and {after:.3g}% than the answer."


def _share(fraction: float) -> str:
    return f"{100 * fraction:.3g}%" if fraction >= 0.001 else "less than 0.1%"
