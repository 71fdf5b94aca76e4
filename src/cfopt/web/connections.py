"""Connections of the server: idle ones make room for others."""

from __future__ import annotations

from itertools import count
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_clock = count()


class Connection(H11Protocol):
    """A connection that is closed before its time where it is idle and another needs its place.

    A browser keeps connections open that it may use again, and anyone can open some and say
    nothing: if these counted, a few hundred would keep everybody else out. One whose request is
    being answered, such as a stream, is never closed for another.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle_since = next(_clock)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Take a place, that of the connection that has been idle for longest if need be."""
        super().connection_made(transport)
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others = [one for one in self.connections if isinstance(one, Connection) and one.idle]
        others = [one for one in others if one is not self and not one.transport.is_closing()]
        if others:
            min(others, key=lambda one: one._idle_since).transport.close()

    def on_response_complete(self) -> None:
        """From now on it is idle."""
        self._idle_since = next(_clock)
        super().on_response_complete()
