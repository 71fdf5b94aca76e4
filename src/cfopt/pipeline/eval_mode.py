"""Models as they are deployed: in eval mode for a while, and given back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*models: object) -> Iterator[None]:
    """Modules in eval mode; anything else is left alone."""
    modules = [m for model in models if isinstance(model, nn.Module) for m in model.modules()]
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def frozen(*models: object) -> Iterator[None]:
    """Modules in eval mode whose weights need no gradient."""
    modules = [model for model in models if isinstance(model, nn.Module)]
    learning = [p for module in modules for p in module.parameters() if p.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        with eval_mode(*modules):
            yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
