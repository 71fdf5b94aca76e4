"""When the garbage collector looks for what nobody needs any more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: How many objects may be made and still be there before the collector looks among them: more than
#: a batch of rows makes, few enough that what it would find takes little memory.
_MANY = 100_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look after a hundred thousand new objects rather than after some hundred.

    Those of a batch of rows are needed until its end, so that there is nothing to find among them;
    to look takes much of the time of rows that are explained in half a millisecond each.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_MANY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


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
