"""Connections beyond the limit: idle ones make room, those in use do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import uvicorn
from fastapi import FastAPI, Request
from tests.patient import PATIENCE

from cfopt.web.limits import Limits
from cfopt.web.serve import listen, settings

#: One more than may be open at a time.
LIMIT = 5
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: A request that is answered only when its body is there, of which the server is told to wait.
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"

Connect = Callable[[], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens a connection to a small server with the explorer's settings."""
    app = FastAPI()

    @app.get("/", status_code=204)
    async def nothing() -> None:
        pass

    @app.post("/", status_code=204)
    async def read(request: Request) -> None:
        await request.body()

    listening = listen("127.0.0.1", 0)
    listening.listen()
    config = settings(app, Limits(connections=LIMIT))
    config.timeout_keep_alive = int(PATIENCE)  # idle ones end for no other reason
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with ExitStack() as stack:
        address = listening.getsockname()
        yield lambda: stack.enter_context(socket.create_connection(address, PATIENCE))
    server.should_exit = True
    thread.join()


def _answer(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    return connection.recv(65536)[9:12]


def test_idle_connections_make_room_for_others_the_longest_idle_first(connect: Connect) -> None:
    first = connect()
    assert _answer(first, GET) == b"204"
    silent = [connect() for _ in range(2 * LIMIT)]
    assert first.recv(1) == b""
    assert [one.recv(1) for one in silent[: LIMIT + 1]] == [b""] * (LIMIT + 1)
    for one in silent[LIMIT + 1 :]:
        assert _answer(one, GET) == b"204"
    # The one that was asked first is the one that has been idle for longest since.
    assert _answer(connect(), GET) == b"204"
    assert silent[LIMIT + 1].recv(1) == b""
    assert _answer(silent[-1], GET) == b"204"


def test_connections_in_use_stay_and_one_more_is_refused(connect: Connect) -> None:
    busy = [connect() for _ in range(LIMIT - 1)]
    assert [_answer(one, POST) for one in busy] == [b"100"] * len(busy)
    assert _answer(connect(), GET) == b"503"
    for one in busy:
        assert _answer(one, b"ok") == b"204"
    assert _answer(connect(), GET) == b"204"
