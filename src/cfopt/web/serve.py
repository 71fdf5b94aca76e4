"""`cfopt serve`: the server on its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from cfopt.errors import InputError
from cfopt.web.address import Address
from cfopt.web.catalogue import OWN
from cfopt.web.connections import Connection
from cfopt.web.limits import Limits
from cfopt.web.pool import Pool
from cfopt.web.process import Source
from cfopt.web.server import create_app

_CHECK = """
import pathlib, sys
from cfopt.app.files import check_files, check_tables
from cfopt.errors import InputError
config = pathlib.Path(sys.argv[1])
try:
    check_tables(config, check_files(config))
    from cfopt.app.config import read_config
    read_config(config, trusted=None)
except InputError as error:
    sys.exit(str(error))
"""

_EXPOSED = (
    "Warning: other machines can reach this server, without encryption. It answers only to those "
    "who know the token in the address below."
)


def check_config(config: Path) -> None:
    """Raise InputError if there is a mistake in a configuration, whose classes are left aside.

    It is read in a process of its own, since this one is to load neither torch nor a model.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, str(config)], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise InputError(done.stderr.strip())


def serve(source: Source, limits: Limits, host: str, port: int) -> None:
    """Answer requests until Ctrl-C.

    Arguments:
        source: what workers load.
        limits: all limits of the server.
        host: the name or address to listen on.
        port: the port; 0 picks a free one, which is printed.
    """
    listening = listen(host, port)
    address = Address.of(host, listening.getsockname()[1])
    app = create_app(source, limits, address)
    _Server(settings(app, limits), app.state.pool, address).run(sockets=[listening])


def settings(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """How an application is served.

    Arguments:
        app: the application, from `create_app`.
        limits: the limit on connections.
    """
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        limit_concurrency=limits.connections,
        log_level="warning",
        server_header=False,
        # A slow client must not hold up the end.
        timeout_graceful_shutdown=1,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, or InputError.

    Arguments:
        host: a name or an address of this machine.
        port: the port; 0 picks a free one.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # TCP by name: only then does asyncio send small answers at once.
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"Port {port} of {host} cannot be used: {reason}. Pass another with --port or --host."
        ) from error
    return listening


class _Server(uvicorn.Server):
    """Says where the page is once it can be opened, and what cannot be loaded.

    Arguments:
        config: uvicorn's configuration of the server.
        pool: its workers, which end before it does.
        address: where it is.
    """

    def __init__(self, config: uvicorn.Config, pool: Pool, address: Address) -> None:
        super().__init__(config)
        self._pool, self._address, self._reported = pool, address, False

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen, then say where."""
        await super().startup(sockets)
        if self._address.token:
            print(_EXPOSED + self._address.elsewhere, file=sys.stderr, flush=True)
        print(f"The explorer is at {self._address.url} (Ctrl-C stops it).", flush=True)

    async def on_tick(self, counter: int) -> bool:
        """Say once why the user's own pipeline is missing."""
        fault = self._pool.live.faults.get(OWN)
        if fault is not None and not self._reported:
            self._reported = True
            line = " ".join(fault.split())
            print(f"Your own pipeline cannot be loaded: {line}", file=sys.stderr, flush=True)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to end: none of the workers that it ends as well is to be replaced."""
        self._pool.expect_end()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the workers first: then nothing is left to wait for."""
        await asyncio.to_thread(self._pool.stop)
        await super().shutdown(sockets)
