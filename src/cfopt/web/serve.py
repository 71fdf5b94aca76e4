"""`cfopt serve`: the server on its own."""

from __future__ import annotations

import uvicorn

from cfopt.web.limits import Limits
from cfopt.web.process import Source
from cfopt.web.server import create_app


def serve(source: Source, limits: Limits, host: str, port: int) -> None:
    """Answer requests until Ctrl-C.

    Arguments:
        source: what workers load.
        limits: of everything.
        host: the name or address to listen at.
        port: the port; 0 takes a free one, which is printed.
    """
    app = create_app(source, limits, host)
    settings = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        # A stream must not hold up the end.
        timeout_graceful_shutdown=1,
    )
    _Server(settings).run()


class _Server(uvicorn.Server):
    """Says where the page is once it can be opened."""

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Listen, then tell."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"The explorer is at http://{shown}:{port} (Ctrl-C stops it).", flush=True)
