"""How functions of this room are compiled: once for a machine, and without the interpreter's lock.

What was compiled is kept beside the package, or in the user's cache folder where that is read-only;
`NUMBA_CACHE_DIR` names another folder. Where nothing can be written, each process compiles anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """A function that Python calls."""
    return _compiled(function, inner=False)


def inner(function: F) -> F:
    """A function that only compiled ones call: it needs no wrapper, which takes long to compile."""
    return _compiled(function, inner=True)


def _compiled(function: F, inner: bool) -> F:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    settings["no_cpython_wrapper"] = inner
    try:
        found: F = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder for what is compiled can be written
        found = numba.njit(**settings)(function)
    return found
