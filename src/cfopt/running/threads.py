"""How many threads of torch's a run uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from cfopt.pipeline import Pipeline
from cfopt.trees.predictor import TreePredictor


@contextmanager
def of_torch(threads: int) -> Iterator[None]:
    """Let torch use this many threads within the block, and as many as before after it.

    Where other programs run as well, several wait for one another: on two busy cores passes of
    networks of up to 2 GFLOP took several times as long with two threads as with one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def suited_threads(pipeline: Pipeline, wanted: int | None = None) -> AbstractContextManager[None]:
    """As many threads as suit a pipeline: one, unless rows behind trees are searched in threads.

    Arguments:
        pipeline: what is explained.
        wanted: how many its user asks for.
    """
    if wanted is not None:
        return of_torch(wanted)
    predictor = pipeline.predictor
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    trees = any(isinstance(module, TreePredictor) for module in modules)
    return nullcontext() if trees else of_torch(1)
