"""Connections: none may hold a place without asking for something."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cfopt.web.headers import refusal
from cfopt.web.limits import Limits

_BUSY = "Too many connections at once; try again soon."


def protocol(limits: Limits) -> type[H11Protocol]:
    """The protocol of a server's connections.

    A connection on which no request is being answered is closed after a while, however slowly a
    next one trickles in. Where there are too many, the one that has waited longest is closed at
    once, so that idle connections keep nobody out.

    Arguments:
        limits: the limits on connections and time.
    """

    class Connection(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                _close_idle(self.connections)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def handle_events(self) -> None:
            # Not by uvicorn's limit_concurrency, whose answer has no headers.
            crowded = max(len(self.connections), len(self.tasks)) > limits.connections
            self.app = _busy if crowded else self.config.loaded_app
            super().handle_events()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def send_400_response(self, msg: str) -> None:
            start, body = refusal(400, msg)
            headers = [*start["headers"], (b"connection", b"close")]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body["body"]),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _look(self) -> None:
            """Time runs as long as it is the client's turn."""
            turn = self.cycle is None or self.cycle.response_complete
            if not turn or self.transport.is_closing():
                self._stop_waiting()
            elif self._waiting is None:
                self._waiting = self.loop.call_later(limits.header_seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Connection


def _close_idle(connections: set[Any]) -> None:
    """Close the connection that has been idle for longest."""
    idle = [one for one in connections if getattr(one, "_waiting", None) is not None]
    if idle:
        oldest = min(idle, key=lambda one: one._waiting.when())
        oldest.transport.close()
        oldest._stop_waiting()


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    start, body = refusal(503, _BUSY)
    start["headers"] += [(b"connection", b"close"), (b"retry-after", b"1")]
    await send(start)
    await send(body)
