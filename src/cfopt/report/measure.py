"""In which measure an answer is near: the one that was minimised, which need not be Distance."""

from __future__ import annotations

import torch

from cfopt.explanation import Explanation

#: How well a distance must match the losses to be what they are; float32 has few digits.
_MATCH = 1e-4
#: How many answers are looked at: all were measured alike.
_ANSWERS = 100
_IN_SCALES = "in units of the features' scales"
_L1 = "by L1, the sum of all changes"


def measured(e: Explanation) -> str:
    """How the answers' nearness was measured; "" for the Euclidean distance that a page shows.

    An explanation keeps the losses, not the proximity: it is known by what it gave.
    """
    found = (e.valid & (e.loss > 0)).nonzero().flatten()[:_ANSWERS]
    if not len(found):
        return ""
    loss = e.loss[found].double()
    change = (e.x[found] - e.x0[found]).flatten(1).double()
    units = {"": change}
    if e.features.scale is not None:
        scaled = change / torch.tensor(e.features.scale, dtype=change.dtype, device=change.device)
        units[_IN_SCALES] = scaled
    fitting = [
        words
        for unit, moved in units.items()
        for words, distance in (
            (unit, moved.square().sum(1)),
            (f"{_L1}{', ' if unit else ''}{unit}", moved.abs().sum(1)),
        )
        if torch.allclose(distance, loss, rtol=_MATCH, atol=0)
    ]
    return fitting[0] if len(fitting) == 1 else "by the loss that was minimised"
