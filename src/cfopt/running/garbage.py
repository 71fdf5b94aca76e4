"""When the garbage collector looks for what nobody needs any more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_at_the_end() -> Iterator[None]:
    """Look once, at the end, and only at what was made meanwhile.

    Whoever makes many objects makes the collector look again and again, also at all that was there
    before: with the models and rows of a run, for a tenth of the time of its report.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if enabled:
            gc.enable()
