"""What every request must be and every answer must carry; plain ASGI, so that streams flow."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cfopt.web.answers import Plain
from cfopt.web.limits import Limits

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE = ("GET", "HEAD", "OPTIONS")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Addresses that stand for all addresses of a machine.
_ALL = ("0.0.0.0", "::")


class Guard:
    """Turns away what no page of this server would send, and sets the headers of all answers.

    A page of another site could name this machine (DNS rebinding) or post to it; a stream without
    end could fill its memory.

    Arguments:
        app: what is guarded.
        host: the name or address that the server was asked to use.
        limits: the limit on bodies.
    """

    def __init__(self, app: ASGIApp, host: str, limits: Limits) -> None:
        self._app, self._host, self._most = app, host.lower(), limits.body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        fault = self._fault(scope["method"], Headers(scope=scope))
        app = self._app if fault is None else Plain({"detail": fault[1]}, fault[0])
        await app(scope, self._limited(receive), dressed)

    def _fault(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._known(_parsed(host)[0]):
            return 421, "This server does not answer to that name. Use the address it printed."
        if method in _SAFE:
            return None
        origin = headers.get("origin")
        elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if origin is not None:
            elsewhere |= _parsed(origin.partition("//")[2])[1] != host.lower()
        if elsewhere:
            return 403, "Requests from pages of another origin are not accepted."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # A page elsewhere can post forms and text, but not JSON.
        if method == "POST" and kind != "application/json":
            return 415, "A request needs to be of type application/json."
        return None

    def _known(self, name: str) -> bool:
        if name in _LOOPBACK or name == self._host:
            return True
        # Bound to all addresses: any of them, but no name, since a name can be made to point here.
        try:
            return self._host in _ALL and bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _limited(self, receive: Receive) -> Receive:
        """A body up to the limit, whatever its headers say."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most:
                raise HTTPException(413, f"A request may be at most {self._most / 1e6:g} MB.")
            return message

        return counted


def _parsed(host: str) -> tuple[str, str]:
    """The name alone and, in lower case, with its port; empty where it is neither."""
    try:
        parsed = urlsplit(f"//{host}")
        return parsed.hostname or "", parsed.netloc.lower()
    except ValueError:
        return "", ""
