"""What every request must be and every answer must carry; plain ASGI, so that streams flow."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Guard:
    """Turns away what no page of this server would send, and sets the headers of all answers.

    A page of another site could name this machine (DNS rebinding) or post to it; a stream without
    end could fill its memory.

    Arguments:
        app: what is guarded.
        host: the name or address that the server was asked to use.
        limits: the limits on bodies.
    """

    def __init__(self, app: ASGIApp, host: str, limits: Limits) -> None:
        self._app, self._host, self._limits = app, host, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False

        async def marked(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _dress(message)
            await send(message)

        try:
            await self._guarded(scope, receive, marked)
        # Any: a fault of this server is reported like any other, and its place logged.
        except Exception:
            logging.getLogger("uvicorn.error").exception("%s failed", scope["path"])
            if not begun:
                await _answer(marked, 500, "The server failed to answer this request.")

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        fault = self._fault(scope, headers)
        if fault is not None:
            await _answer(send, *fault)
            return
        try:
            body = await asyncio.wait_for(self._body(headers, receive), self._limits.body_seconds)
        except TimeoutError:
            await _answer(send, 408, "The request took too long to arrive.")
            return
        if body is None:
            most = f"{self._limits.body / 1e6:g} MB"
            await _answer(send, 413, f"A request may be at most {most}.")
            return
        await self._app(scope, _replayed(body, receive), send)

    def _fault(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._known(host):
            return 421, "This server does not answer to that name. Use the address it printed."
        if scope["method"] in _SAFE:
            return None
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            return 403, "Requests from pages of another origin are not accepted."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "Requests from pages of another origin are not accepted."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # A page elsewhere can post forms and text, but not JSON.
        if scope["method"] == "POST" and kind != "application/json":
            return 415, "A request needs to be of type application/json."
        return None

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in _LOOPBACK or name == self._host.lower():
            return True
        # Bound to all addresses: any of them, but no name, since a name can be made to point here.
        return _address(self._host, unspecified=True) and _address(name)

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large, whatever its headers say."""
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self._limits.body:
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > self._limits.body:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _address(name: str, unspecified: bool = False) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_unspecified or not unspecified


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what else the client does."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def refusal(status: int, detail: str) -> tuple[Message, Message]:
    """A refusal in a sentence: its start, with all headers, and its body."""
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    _dress(start)
    return start, {"type": "http.response.body", "body": body}


def _dress(start: Message) -> None:
    headers = MutableHeaders(scope=start)
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


async def _answer(send: Send, status: int, detail: str) -> None:
    for message in refusal(status, detail):
        await send(message)
