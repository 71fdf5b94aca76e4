"""How nearness is measured: the norm and the units of every distance, and what proofs compare."""

from __future__ import annotations

import torch

from cfopt.question.plausibility import CodePenalty
from cfopt.question.proximity import Latent
from cfopt.question.scales import QUARTILES_APART
from cfopt.result.explanation import Explanation

#: Columns whose largest values differ by more than this factor differ in size.
_DIFFER = 100.0
#: The units in words, and what usual changes are.
_OWN, _USUAL = "in the features' own units", "in units of each feature's usual change"
_SPREAD = f": its interquartile range among the known contexts, over {QUARTILES_APART}"
#: What to do about distances that depend on units.
_ADVICE = (
    " Pass reference=... (known contexts) or Features(scale=...) for distances that do not depend "
    "on these."
)


def measured(e: Explanation) -> str:
    """How distances are measured, to follow "measured"; "" for the plain Euclidean distance.

    Where features count in their own units and these matter, it says so.
    """
    return _joined(_norm(e), units_of(e, _OWN if _units_matter(e) else ""))


def measure_said(e: Explanation) -> list[str]:
    """The same as a sentence of a summary, with what the units are; none if nothing is to say."""
    words = measured(e)
    more = _SPREAD if words.endswith(_USUAL) else ""
    advice = _ADVICE if words.endswith(_OWN) else ""
    return [f"Distances are measured {words}{more}.{advice}"] if words else []


def compared(e: Explanation) -> str:
    """How proofs measure: as distances are, or where codes are penalised, by the loss.

    The features' own units are left out: every answer has a proof, and to say it once is enough.
    """
    return "by the loss that was minimised" if _penalised(e) else _joined(_norm(e), units_of(e))


def length_of(e: Explanation, loss: float) -> float:
    """What proofs compare: the distance at which a loss is reached, or the penalised loss."""
    length = e.asked.near(e.x).length(torch.tensor(loss, dtype=torch.float64))
    return loss if _penalised(e) else float(length)


def units_of(e: Explanation, own: str = "") -> str:
    """The scales in which features count, in words; "" if all are 1.

    Arguments:
        own: what to say where there are no scales.
    """
    proximity = e.asked.proximity
    if isinstance(proximity, Latent):
        return ""
    scales = {
        "in units of the proximity's scales": None if proximity is None else proximity.scale,
        "in units of the features' scales": e.features.scale,
        _USUAL: e.features.usual,
    }
    for words, scale in scales.items():
        if scale is not None:
            return "" if bool((torch.as_tensor(scale) == 1).all()) else words
    return own


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def _norm(e: Explanation) -> str:
    return "" if e.asked.proximity is None else e.asked.proximity.words


def _units_matter(e: Explanation) -> bool:
    """Whether contexts have several columns, with names or with values of different sizes."""
    if not len(e) or e.x0.ndim > 2 or e.x0.shape[1] < 2:
        return False
    if e.features.names is not None:
        return True
    size = e.x0.nan_to_num(0.0, 0.0, 0.0).abs().amax(0)
    size = size[size > 0]
    return bool(len(size)) and bool(size.max() > _DIFFER * size.min())


def _penalised(e: Explanation) -> bool:
    return isinstance(e.asked.plausibility, CodePenalty)
