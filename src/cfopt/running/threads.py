"""How many threads of torch's a run uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from cfopt.pipeline import Pipeline
from cfopt.trees.predictor import TreePredictor


@contextmanager
def single_threaded() -> Iterator[None]:
    """One thread of torch's: with tensors as small as ours, several wait for one another.

    Where other programs run as well, a search among codes takes many times as long with two threads
    on two cores as with one.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def suited_threads(pipeline: Pipeline) -> AbstractContextManager[None]:
    """As many threads as suit a pipeline: one, unless rows behind trees are searched in threads."""
    predictor = pipeline.predictor
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    trees = any(isinstance(module, TreePredictor) for module in modules)
    return nullcontext() if trees else single_threaded()
