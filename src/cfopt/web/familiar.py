"""Whether an image is of the kind that a pipeline's models know."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from cfopt.web.served import ServedPipeline

#: How many stored contexts say what is usual, and how much more than the largest of them is not.
_STORED, _ROOM = 96, 1.25


def unlike(served: ServedPipeline, context: Tensor) -> str | None:
    """Why answers about a context are doubtful, in a sentence; None if nothing is known against it.

    The generative model gives back what is like its training data nearly as it is. An image of
    another kind it redraws as one of its own: its error is then above those of all stored contexts.

    Arguments:
        served: the pipeline.
        context: a context that was sent, `(...)`.
    """
    if served.generative is None:
        return None
    if float(_errors(served, context[None])[0]) <= _ROOM * _usual(served):
        return None
    return (
        "This image does not look like those that the models were made for: the generative model "
        "redraws it worse than any stored one. Read costs and answers with care."
    )


@cache
def _usual(served: ServedPipeline) -> float:
    """The largest error of the stored contexts."""
    return float(_errors(served, served.contexts[:_STORED]).max())


def _errors(served: ServedPipeline, contexts: Tensor) -> Tensor:
    """How far each context is from what the generative model makes of it: `(B, ...) -> (B,)`."""
    assert served.generative is not None
    with torch.no_grad():
        redrawn = served.generative.decode(served.generative.encode(contexts))
    return (redrawn.reshape(contexts.shape) - contexts).abs().flatten(1).mean(1)
