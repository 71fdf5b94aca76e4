"""`cfopt serve`: the server on its own."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

from cfopt.errors import InputError
from cfopt.web.limits import Limits
from cfopt.web.process import Source
from cfopt.web.server import create_app

#: Connections at the same time, streams included.
_CONNECTIONS = 256


def serve(source: Source, limits: Limits, host: str, port: int) -> None:
    """Answer requests until Ctrl-C.

    Arguments:
        source: what workers load.
        limits: of everything.
        host: the name or address to listen at.
        port: the port; 0 takes a free one, which is printed.
    """
    listening = listen(host, port)
    settings = uvicorn.Config(
        create_app(source, limits, host),
        log_level="warning",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        # A stream must not hold up the end.
        timeout_graceful_shutdown=1,
    )
    _Server(settings).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, or InputError.

    Arguments:
        host: a name or an address of this machine.
        port: 0 for a free one.
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
    """Says where the page is once it can be opened."""

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        for one in sockets or []:
            host, port = one.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"The explorer is at http://{shown}:{port} (Ctrl-C stops it).", flush=True)
