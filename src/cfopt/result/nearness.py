"""How nearness is measured: by what was minimised, which need not be the distance shown."""

from __future__ import annotations

import math

from cfopt.question.plausibility import CodePenalty
from cfopt.question.proximity import Latent
from cfopt.result.explanation import Explanation


def _penalised(e: Explanation) -> bool:
    return isinstance(e.asked.plausibility, CodePenalty)


def distance_of(e: Explanation, loss: float) -> float:
    """A loss in the unit in which nearness is stated: of a squared distance its root."""
    proximity = e.asked.proximity
    squared = proximity is not None and not _penalised(e) and not proximity.words
    return math.sqrt(loss) if squared and loss >= 0 else loss


def measured(e: Explanation) -> str:
    """How the answers' nearness was measured; "" for the Euclidean distance that a page shows."""
    proximity = e.asked.proximity
    if proximity is None or _penalised(e):
        return "by the loss that was minimised"
    own, given = proximity.scale is not None, e.features.scale is not None
    in_scales = own or (given and not isinstance(proximity, Latent))
    whose = "its own" if own else "the features'"
    units = f"in units of {whose} scales" if in_scales else ""
    return ", ".join(filter(None, [proximity.words, units]))
