"""What every request must be and every answer must carry; plain ASGI, so that streams flow."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cfopt.web.address import Address, split_host
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


class Guard:
    """Turns away what no page of this server would send, and sets the headers of all answers.

    A page of another site could name this machine (DNS rebinding) or post to it; a stream without
    end could fill its memory.

    Arguments:
        app: what is guarded.
        address: where the server is, and what opens it.
        limits: the limit on bodies.
    """

    def __init__(self, app: ASGIApp, address: Address, limits: Limits) -> None:
        self._app, self._address, self._most = app, address, limits.body

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
                if self._address.brings_token(scope["query_string"]):
                    headers.append("Set-Cookie", self._address.cookie())
            await send(message)

        fault = self._fault(scope, Headers(scope=scope))
        app = self._app if fault is None else Plain({"detail": fault[1]}, fault[0])
        await app(scope, self._limited(receive), dressed)

    def _fault(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        host, method = headers.get("host", ""), scope["method"]
        if not self._address.answers_to(host):
            return 421, (
                "This server does not answer to that name or port. Use the address it printed."
            )
        safe = method in _SAFE
        elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        # Pages and files may be linked to; what they say of searches is for this page alone.
        if elsewhere and not (safe and not scope["path"].startswith("/api")):
            return 403, "Requests from pages of another origin are not accepted."
        if not self._address.opened_by(headers, scope["query_string"]):
            return 401, (
                "This server needs a token: open the address that it printed, or send "
                "`Authorization: Bearer TOKEN`."
            )
        if safe:
            return None
        origin = headers.get("origin")
        if origin is not None and split_host(origin.partition("//")[2]) != split_host(host):
            return 403, "Requests from pages of another origin are not accepted."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # A page elsewhere can post forms and text, but not JSON.
        if method == "POST" and kind != "application/json":
            return 415, "A request needs to be of type application/json."
        return None

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
