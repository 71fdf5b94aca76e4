"""Solvers and models that keep a state, used by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard:
    """A lock that belongs to an object; the thread that holds it may take it again.

    A shallow copy of the object shares the guard, as it shares what is guarded. A deep copy and an
    object that was pickled have guards of their own.
    """

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Guard], tuple[()]]:
        return Guard, ()


def guarded(method: Method) -> Method:
    """A method during which its object's `guard` is held."""

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.guard:
            return method(self, *args, **kwargs)

    return cast(Method, alone)
