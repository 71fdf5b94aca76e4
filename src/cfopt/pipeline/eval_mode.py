"""Models as they are deployed: in eval mode for a while, and given back as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from torch import nn

_LOCK = Lock()
#: Modules that were in training mode, and how many want them in eval mode.
_HELD = Counter[nn.Module]()


@contextmanager
def eval_mode(*models: object) -> Iterator[None]:
    """Modules in eval mode; anything else is left alone.

    Where several want a module so at once, as in two threads, the last one gives it back.
    """
    modules = {m for model in models if isinstance(model, nn.Module) for m in model.modules()}
    with _LOCK:
        held = {module for module in modules if module.training or module in _HELD}
        _HELD.update(held)
        for module in held:
            module.training = False
    try:
        yield
    finally:
        with _LOCK:
            _HELD.subtract(held)
            for module in held:
                if not _HELD[module]:
                    del _HELD[module]
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
